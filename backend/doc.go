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
//   - The outputs of a valid node have the types and shapes that its operator's rule
//     infers.
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
// To add an operator, write the parts in the list below.
//
//   - its constant and its row in rules (op.go), its infer function (infer.go, or
//     infer_fixed.go for fixed point), its method of [Builder] (builder.go) and a case
//     in op_test.go;
//   - a kernel in backend/cpu (kernel.go);
//   - forms, a definition and, if rounding differs, a tolerance in backendtest
//     (operators.go, reference.go, tolerance.go);
//   - its lowering in hexagon (lower.go), if more differs than name and parameters;
//   - in hexagon/emulator, the operator in C (csrc/ops/NAME.c, csrc/ops/ops.h and
//     csrc/ops/table.c) and its tests (testdata/ops);
//   - rows in a table of hexagon/forms (table_*_test.go), a definition there
//     (reference_test.go) and, if the float device computes the operator, its parameters
//     (float_test.go), and its testdata written again with -update.
//
// A new device implements [Device] and passes backendtest.Run; optional.go lists the
// interfaces that it may implement in addition.
//
// The time to validate a graph is linear in the graph's size. Package backend imports
// the standard library only and never touches a device.
package backend
