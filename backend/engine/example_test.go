package engine_test

import (
	"context"
	"fmt"

	"github.com/sdnpu/sdnpu/backend/cpu"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/gguf"
	"github.com/sdnpu/sdnpu/backend/model"
	"github.com/sdnpu/sdnpu/backend/tokenizer"
)

func ExampleEngine_Generate() {
	if err := tell(context.Background(), "Once upon a time"); err != nil {
		fmt.Println(err)
	}
	// Output: , there was a little girl named Lily.
}

// tell continues a story up to the end of its first sentence.
func tell(ctx context.Context, story string) error {
	f, err := gguf.Open("../../integration_test/models/stories260K-f16.gguf")
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := model.Load(f)
	if err != nil {
		return err
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		return err
	}
	dev := cpu.New(cpu.Options{}) // the test uses the float device: hexagon.Open would open the NPU
	defer dev.Close()
	e, err := engine.New(ctx, dev, m, tok, engine.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	prompt, err := tok.Encode(story, tokenizer.EncodeOptions{AddSpecial: true})
	if err != nil {
		return err
	}
	_, err = e.Generate(ctx, engine.Request{Prompt: prompt, MaxTokens: 50, Stop: []string{" She"}}, func(p engine.Piece) error {
		fmt.Print(p.Text)
		return nil
	})
	return err
}
