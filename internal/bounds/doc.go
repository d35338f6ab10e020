// Package bounds holds the numbers of the plugin to two pages: README.md here has all of them,
// docs/limits.md those that a user may meet.
//
// A constant of plugin, algo, redisresp or bridge that bounds something says so in its comment:
//
//	// Bound: identities that a worker follows. Beyond it, the one unused for longest gives its
//	// units back. Protects memory.
//	const maxLeases = 4096
//
// The unit comes first, then what happens beyond the bound (or below it), then what the bound
// protects. A unit of "us" is for a time in microseconds. The tests of this package read the
// comments, make the page of them, and hold the bounds to each other. A number that bounds nothing,
// such as a status code, is listed in notBounds: no number goes unnoticed.
package bounds
