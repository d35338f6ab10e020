//go:build tinygo && !safepoints

package main

// TinyGo's own collector runs inside any allocation, in a build with COLLECTOR=precise.

func callbackBegins() {}

func callbackEnds() {}
