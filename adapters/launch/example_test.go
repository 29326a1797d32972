package launch_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// Example generates one token with the float device.
func Example() {
	const path = "../../integration_test/models/stories260K-f16.gguf"
	c, err := launch.ResolveConfig(path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	s := launch.Settings{Library: "float"}
	m, err := s.Open(context.Background(), "sdnpu", launch.Options{
		Path:      path,
		Config:    c,
		Context:   64,
		Sequences: 1,
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	request := engine.Request{Prompt: []int32{1, 403}, MaxTokens: 1}
	report, err := m.Engine.Generate(context.Background(), request, func(engine.Piece) error { return nil })
	fmt.Println(len(report.Output), err)
	// Output: 1 <nil>
}
