package cpu_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
)

// The example compiles a graph, loads the image and runs it on bound buffers.
func Example() {
	b := backend.NewBuilder("double")
	x := b.Input("x", backend.Float32, 3)
	b.Output(b.Apply("y", backend.Add, []backend.TensorID{x, x}))
	graph, err := b.Graph()
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	device := cpu.New(cpu.Options{})
	defer device.Close()
	var image bytes.Buffer
	if err := device.Compile(ctx, &image, graph); err != nil {
		log.Fatal(err)
	}
	program, err := device.Load(ctx, backend.Image{Bytes: image.Bytes()})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()

	memory, err := device.NewBuffer(128)
	if err != nil {
		log.Fatal(err)
	}
	defer memory.Close()
	for i, v := range []float32{1, 2.5, -4} {
		binary.LittleEndian.PutUint32(memory.Bytes()[4*i:], math.Float32bits(v))
	}
	if err := program.Run(ctx, "double", []backend.Binding{{Buffer: memory}, {Buffer: memory, Offset: 64}}); err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(memory.Bytes()[64+4*i:])))
	}
	// Output:
	// 2
	// 5
	// -8
}
