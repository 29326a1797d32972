// Package backend is the contract between models and devices.
//
// A model is written as [Graph] values: data that says which operators run on
// which tensors. A [Device] turns graphs into one image, loads images into
// [Program]s and runs their graphs on [Buffer]s that the caller owns. The
// contract says nothing about transformers, QNN or files.
//
// # Operators
//
// Operators, layouts and parameters carry QNN's names and meaning (see [Op]),
// because the Hexagon NPU is what the project exists for: a graph that passes
// [Graph.Validate] is lowered one to one. The set is the one that a
// transformer needs, not all of QNN's.
//
// # Invariants
//
//   - nodes stand in topological order and every tensor has one producer;
//   - shapes are static, known and positive, rank 1 to [MaxRank];
//   - elements are row-major and little-endian, everywhere;
//   - a node that passed Validate has the shapes its operator's rule infers.
//
// # Adding to it
//
// A new operator is a row of rules with its infer function here, a case in
// backend/cpu, one in backendtest with a reference of its own, an entry of the
// emulator's op_table.c, and whatever lowering hexagon needs beyond name and
// parameters. A new device implements [Device] and passes backendtest.Run.
//
// The package imports the standard library only and never touches a device.
package backend
