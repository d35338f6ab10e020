// Package pattern looks for a regular expression, or for a plain text, in a
// string whose length a client chose, with an upper bound on the work.
//
// The answer is always that of Go's regexp package, or "not known": nothing is
// approximate. Go's package has three engines; the two that are fast are for
// short strings and for expressions of special forms, and the third takes up to
// 15 us a byte in the plugin. Here there are two:
//
//   - An automaton, made when the configuration is loaded, which takes one step
//     for each byte of an ASCII string. Nearly all expressions that people write
//     have a small one.
//   - A simulation, for expressions whose automaton would be too large, and for
//     strings with bytes beyond ASCII. It steps through the program of package
//     regexp/syntax as Thompson described (Programming Techniques: Regular
//     expression search algorithm, CACM 11(6), 1968).
//
// A plain text is looked for as Knuth, Morris and Pratt do.
//
// Work is counted in units; a unit takes some 2 to 3 ns in the plugin. The work
// for a value depends on the expression and the value alone, not on what came
// before, so that each worker gives the same answer.
package pattern
