package chain_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/sdnpu/sdnpu/backend/chain"
	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/model/modeltest"
	"github.com/sdnpu/sdnpu/backend/quant"
)

// The example compares a recipe with itself on a random model.
func ExampleCompare() {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var file bytes.Buffer
	must(modeltest.New(rand.New(rand.NewPCG(1, 2)), "llama", quant.F32, true).Write(&file))
	dir, err := os.MkdirTemp("", "chain")
	must(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.gguf")
	must(os.WriteFile(path, file.Bytes(), 0o600))
	f, err := gguf.Open(path)
	must(err)
	defer f.Close()
	m, err := model.Load(f)
	must(err)

	texts := [][]int32{{1, 2, 3, 4}}
	dev := cpu.New(cpu.Options{})
	reference, err := chain.New(dev, m, texts, chain.Options{Rows: 4})
	must(err)
	tested, err := chain.New(dev, m, texts, chain.Options{Rows: 4})
	must(err)
	c, err := chain.Compare(context.Background(), reference, tested, nil)
	must(err)
	fmt.Println(c.Positions, c.Agreement(), c.Divergence)
	// Output: 3 1 0
}
