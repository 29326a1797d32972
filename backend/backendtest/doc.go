// Package backendtest is the suite that every [backend.Device] must pass.
//
// [Run] compares each operator, in each floating-point type and in the shapes
// of a transformer block, with a slow and obvious reference in float64. The
// reference sees the encoded inputs and constants, so only arithmetic and the
// rounding of results count. The suite also holds a device to what the contract
// says of images, bindings, errors and concurrency.
//
// # Row independence
//
// The engine relies on two properties of a whole block: a valid row does not
// depend on padding rows and unused cache slots, and it is the same in graphs
// of different widths. [Options.RowExact] demands both bit for bit; without
// it the differences are measured and logged.
//
// Forms named "optional-…" may be refused with [errors.ErrUnsupported].
//
// The suite knows no device. What a device is known to get wrong is listed by
// case name in [Options.Known] and printed as skipped; a name that matches no
// case fails, so that the list cannot outlive its reasons.
package backendtest
