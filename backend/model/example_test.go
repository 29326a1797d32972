package model_test

import (
	"fmt"
	"log"

	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
)

func Example() {
	file, err := gguf.Open("../../integration_test/models/stories260K-f16.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	m, err := model.Load(file)
	if err != nil {
		log.Fatal(err)
	}
	recipe, err := model.FindRecipe("f16")
	if err != nil {
		log.Fatal(err)
	}
	graph, err := m.Block(model.Block{Name: "decode", First: 3, End: 5, Rows: 1, Context: 512, Recipe: recipe})
	if err != nil {
		log.Fatal(err)
	}
	signature := graph.Signature()
	for _, port := range append(signature.Inputs, signature.Outputs...) {
		fmt.Println(port.Name, port.Type, port.Shape)
	}
	// Output:
	// x f16 [1 64]
	// cos f16 [1 1 1 4]
	// sin f16 [1 1 1 4]
	// mask f16 [1 1 2 513]
	// past_k3 f16 [1 4 512 8]
	// past_v3 f16 [1 4 512 8]
	// past_k4 f16 [1 4 512 8]
	// past_v4 f16 [1 4 512 8]
	// new_k3 f16 [1 4 1 8]
	// new_v3 f16 [1 4 1 8]
	// new_k4 f16 [1 4 1 8]
	// new_v4 f16 [1 4 1 8]
	// y f16 [1 64]
}
