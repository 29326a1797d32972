// Package modeltest makes random models of every family, for tests: a GGUF file, and the
// expected output, computed in the most direct way.
//
// [New] draws sizes, the optional features of the family, and weights of any format.
// [Model.Forward] is the oracle: the papers' formulas in float64 over the whole text,
// with the values of the file's weights. It knows no graph, cache, mask, view or width,
// and shares no code with package model. It is slow: keep the sizes small.
package modeltest
