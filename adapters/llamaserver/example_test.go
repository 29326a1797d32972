package llamaserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/chat"
	"github.com/sdnpu/sdnpu/adapters/llamaserver"
	"github.com/sdnpu/sdnpu/adapters/llamaserver/arguments"
	"github.com/sdnpu/sdnpu/backend/engine"
)

// echo is a model whose answer is the prompt.
type echo struct{}

func (echo) Generate(_ context.Context, r engine.Request, emit func(engine.Piece) error) (engine.Report, error) {
	err := emit(engine.Piece{Text: echo{}.Decode(r.Prompt)})
	return engine.Report{PromptTokens: len(r.Prompt), OutputTokens: 1, Stop: engine.StopEOS}, err
}

func (echo) Encode(_ context.Context, text string, _, _ bool) ([]int32, error) {
	return []rune(text), nil
}
func (echo) Decode(ids []int32) string  { return string(ids) }
func (echo) Limits() llamaserver.Limits { return llamaserver.Limits{Context: 128, Vocab: 0x110000} }

func (echo) Template() (*chat.Template, error) { return nil, chat.ErrNoTemplate }

func (echo) Details() llamaserver.Details { return llamaserver.Details{Path: "echo.gguf"} }

func Example() {
	args, _, err := arguments.Parse([]string{"--model", "m.gguf", "--port", "0", "-np", "2"})
	if err != nil {
		panic(err)
	}
	server, err := llamaserver.New(llamaserver.Options{Addr: fmt.Sprintf("%s:%d", args.Host, args.Port), Slots: args.Parallel})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx) }() // until SetModel, the server answers "loading model"
	server.SetModel(echo{})
	answer, err := http.Post("http://"+server.Addr().String()+"/completion", "application/json",
		strings.NewReader(`{"prompt": "hello", "stream": true}`))
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	first, err := bufio.NewReader(answer.Body).ReadString('\n')
	if err != nil {
		panic(err)
	}
	fmt.Print(first)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// data: {"index":0,"content":"hello","stop":false}
	// <nil>
}
