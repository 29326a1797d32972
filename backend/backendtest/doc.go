// Package backendtest is the conformance suite that every [backend.Device] must pass.
//
// [Run] compares each operator, in each floating-point type and in the shapes of a
// transformer block, with a slow and direct reference in float64. The float64 reference
// of the conformance suite gets the encoded inputs and constants, so only arithmetic
// and the rounding of results count. The conformance suite also checks the contract's
// promises about images, bindings, errors and concurrency.
//
// # Row independence
//
// The engine relies on two properties of a block: a valid row does not depend on
// padding rows and unused cache slots, and a row has the same result in graphs of
// different widths. If [Options.RowExact] is set, equal rows must have results that are
// equal to the last bit. If RowExact is not set, the suite measures and logs the
// differences between rows that should be equal.
//
// # Exceptions
//
// A device may reject operator forms named "optional-…" with [errors.ErrUnsupported]. The
// conformance suite contains no case for one particular device: [Options.Known] lists the
// case names that a device is known to fail, and Run skips these cases with their reason. If
// a name in Known matches no case, Run fails, so that outdated names are noticed.
//
// # Extending
//
// A new operator needs test forms in operators.go and a definition in reference.go;
// TestEveryOperatorHasACase fails if one is missing. mutants_test.go holds devices with
// one mistake each, and the suite must find every mistake. A run of the suite takes
// about a second on the float device.
package backendtest
