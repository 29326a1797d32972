// Package backend defines the contract between models and devices.
//
// A model is written as [Graph] values: data that says which operators run on which
// tensors. A [Device] compiles graphs into one image, loads images as [Program]s and
// runs their graphs on [Buffer]s. Package backend knows nothing of transformers, QNN or
// files. The diagram below shows the usual order of calls.
//
//	Builder -> Graph -> Device.Compile -> image -> Device.Load -> Program
//	Device.NewBuffer -> Buffer -> Binding -> Program.Run
//
// # Operators
//
// Operators, layouts and parameters have QNN's names and meaning (see [Op]), because
// the Hexagon NPU is the target: a graph that passes [Graph.Validate] is lowered one to
// one. Package backend has only the operators that a transformer needs, not all of
// QNN's.
//
// # Invariants
//
//   - Nodes are in topological order, and every tensor has one producer.
//   - Shapes are static and positive, of rank 1 to [MaxRank].
//   - Elements are row-major and little-endian.
//   - The rule of an operator defines the types and shapes of its results.
//
// # Ownership
//
// The caller closes each program and buffer that a device returns, and closes the device last.
// The caller keeps an image's bytes unchanged until the programs loaded from the image are
// closed, and does not touch the bytes of a buffer that a running graph uses. A [Builder] and a
// [Literal] keep the slices that the caller passes to them; the caller must not change these
// slices afterwards.
//
// # Extending the contract
//
// A new operator needs the following parts.
//
//   - In package backend, a new operator needs a constant and a row in rules (op.go), an infer
//     function (infer.go, or infer_fixed.go for fixed point), a method of [Builder] (builder.go)
//     and a test case (op_test.go).
//   - In package backend/cpu, a new operator needs a kernel (kernel.go).
//   - In package backendtest, a new operator needs test forms (operators.go) and a definition
//     (reference.go). If the operator rounds its results differently from other operators, add
//     a tolerance (tolerance.go).
//   - Package hexagon lowers most operators by name and parameters. An operator that needs more
//     is lowered by code in lower.go.
//   - In package hexagon/emulator, a new operator needs C code (csrc/ops/NAME.c), entries in
//     csrc/ops/ops.h and csrc/ops/table.c, and tests in testdata/ops.
//   - In package hexagon/forms, a new operator needs rows in a table (table_*_test.go), a
//     definition (reference_test.go) and, if the float device computes the operator, parameters
//     (float_test.go). Run the tests of hexagon/forms with -update to write their testdata
//     again.
//
// A new device implements [Device] and passes backendtest.Run; optional.go lists the
// interfaces that it may implement in addition.
//
// The time to validate a graph is linear in the graph's size. Package backend imports
// the standard library only and never touches a device.
package backend
