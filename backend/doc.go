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
// To add an operator, add the parts of each item of the following list.
//
//   - Package backend needs the operator's constant and its row in rules (op.go).
//     Add the infer function (infer.go, or infer_fixed.go for fixed point), the method of
//     [Builder] (builder.go) and a case in op_test.go.
//   - Package backend/cpu needs a kernel for the operator (kernel.go).
//   - Package backendtest needs forms (operators.go) and a definition (reference.go).
//     If the rounding differs from that of other operators, add a tolerance (tolerance.go).
//   - Package hexagon lowers most operators by name and parameters.
//     If the operator needs more, extend lower.go.
//   - Package hexagon/emulator needs the operator in C (csrc/ops/NAME.c).
//     Add the operator to csrc/ops/ops.h and csrc/ops/table.c, and its tests to testdata/ops.
//   - Package hexagon/forms needs rows in a table (table_*_test.go).
//     Add a definition (reference_test.go) and, if the float device computes the operator, its
//     parameters (float_test.go). Then write the testdata again with -update.
//
// A new device implements [Device] and passes backendtest.Run; optional.go lists the
// interfaces that it may implement in addition.
//
// The time to validate a graph is linear in the graph's size. Package backend imports
// the standard library only and never touches a device.
package backend
