// Package access decides who may use an HTTP server: which API keys requests need, which
// web pages may send requests, and how connections are encrypted.
//
// [Read] reads keys and a certificate, [ParseSites] reads the list of allowed web sites,
// and [Gate] applies both to requests. Package access does not listen and does not choose
// the form of an answer: a [Reject] writes the answers to rejected requests.
//
// # Invariants
//
//   - A protection that a user asked for and that cannot be used is an error.
//   - No error, warning or answer contains a key, or text that a web page chose.
//   - The time of a check depends neither on the keys nor on how much of one is right.
//   - /health and the status page, which holds no data, need no key.
//
// Each request costs one hash and one comparison for each key.
package access
