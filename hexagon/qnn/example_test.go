package qnn_test

import (
	"fmt"

	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// Example compiles and executes a graph with one layer.
func Example() {
	run := func() error {
		library, err := qnn.Open("libQnnHtp.so", qnn.Options{})
		if err != nil {
			return err
		}
		defer library.Close()
		backend, err := library.NewBackend(nil)
		if err != nil {
			return err
		}
		defer backend.Close()
		context, err := backend.NewContext(nil, qnn.ContextOptions{})
		if err != nil {
			return err
		}
		defer context.Close()
		graph, err := context.NewGraph("layer", qnn.GraphOptions{})
		if err != nil {
			return err
		}
		x := qnn.Tensor{Name: "x", Kind: qnn.AppWrite, Type: qnn.Float16, Dims: []uint32{8, 64}}
		w := qnn.Tensor{Name: "w", Kind: qnn.Static, Type: qnn.Float16, Dims: []uint32{32, 64}, Data: make([]byte, 2*32*64)}
		y := qnn.Tensor{Name: "y", Kind: qnn.AppRead, Type: qnn.Float16, Dims: []uint32{8, 32}}
		for _, t := range []*qnn.Tensor{&x, &w, &y} {
			if err := graph.CreateTensor(t); err != nil {
				return err
			}
		}
		layer := &qnn.Op{Name: "fc", Type: "FullyConnected", Inputs: []*qnn.Tensor{&x, &w}, Outputs: []*qnn.Tensor{&y}}
		if err := backend.Validate(layer); err != nil {
			return err
		}
		if err := graph.AddNode(layer); err != nil {
			return err
		}
		if err := graph.Finalize(nil); err != nil {
			return err
		}
		return graph.Execute(
			[]qnn.ExecTensor{{ID: x.ID, Data: make([]byte, 1024)}},
			[]qnn.ExecTensor{{ID: y.ID, Data: make([]byte, 512)}},
		)
	}
	if err := run(); err != nil {
		fmt.Println(err)
	}
}

// The example computes the size of a tensor, which SizeBytes checks without any call
// into the library.
func ExampleTensor_SizeBytes() {
	logits := qnn.Tensor{Name: "logits", Type: qnn.Float16, Dims: []uint32{32, 49152}}
	fmt.Println(logits.SizeBytes())
	// Output: 3145728 <nil>
}
