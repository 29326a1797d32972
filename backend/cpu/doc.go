// Package cpu is the plain float device: every operator of the contract in
// ordinary Go, with matrix products of many rows on the vector unit of x86-64
// processors, to the same bits. It is the oracle that other devices are compared
// with, and it runs only when named, never as a silent fallback.
//
// # Arithmetic
//
// All arithmetic is float32; the sums of RmsNorm and Softmax are float64. Each
// node's result is rounded to its tensor's type, so an f16 graph rounds once
// per node. Inside a node nothing is rounded to float16.
//
// # Invariants
//
//   - An element of a result is computed in one fixed order, whatever the number
//     of rows, goroutines and other graphs: a row of a wide graph is bit-equal
//     to the same row alone. The lanes of the vector unit are rows, and it rounds
//     products before it adds them.
//   - What a mask excluded has a Softmax share of exactly zero, and exact zeros
//     of MatMul's left operand are left out of the sum (right operand not
//     transposed): padding and unused slots never influence other rows,
//     whatever they hold.
//   - No compiler may fuse a product with a sum here: only math.Exp can differ
//     between machines, in the last bit of a float64.
//   - A graph passes [backend.Graph.Validate] before anything looks at it, also
//     when it comes from an image: a hostile one is an error, never a panic.
//
// # Cost
//
// A program holds its constants once as float32, however many graphs use them,
// and scratch memory for one run. On one core of an EPYC 7003, matrix products
// reach 8.1 GFLOP/s at one row, 5.0 where the weights come from memory, and 9.6 at
// 128 rows without the vector unit; with it five to nine times as much at 128 rows,
// measured beside other work (BenchmarkFullyConnected).
package cpu
