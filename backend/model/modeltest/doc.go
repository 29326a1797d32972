// Package modeltest makes random models of every family, for tests: the file,
// and what a model computes, in the most obvious way.
//
// [New] draws sizes, what the family has only sometimes, and weights of any
// format. [Model.Forward] is the oracle: the papers' formulas in float64 over
// the whole text, from the values that the file's weights stand for. It knows
// no graph, cache, mask, view or width, and shares no code with package model.
package modeltest
