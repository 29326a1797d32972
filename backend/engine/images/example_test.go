package images_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine/images"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
)

func Example() {
	f, err := gguf.Open("../../../integration_test/models/stories260K-f32.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		log.Fatal(err)
	}
	c := images.Config{
		Recipe: model.Recipes[0], Rows: []int{32, 1}, HeadRows: []int{1}, Blocks: 2, Top: 128,
		Logger: slog.New(slog.DiscardHandler), Progress: func(images.Progress) {},
	}
	sets, err := images.WriteBlocks(m, c, 512)
	if err != nil {
		log.Fatal(err)
	}
	loader := images.NewLoader(cpu.New(cpu.Options{}), m, c, 512, sets)
	for _, set := range sets {
		graphs, list, err := loader.Load(context.Background(), set)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(list), "image:", images.Name(set), "with", len(graphs), "graphs")
		if err := images.CloseAll(list); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1 image: block0_rows{1,32} with 2 graphs
	// 1 image: block1_rows{1,32} with 2 graphs
}
