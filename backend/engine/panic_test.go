package engine_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine"
)

// TestAPanicOfTheDeviceEndsItsPassAlone: the request whose goroutine ran the pass panics, other
// requests of the pass get an error, and later requests succeed.
func TestAPanicOfTheDeviceEndsItsPassAlone(t *testing.T) {
	dev := newDevice()
	var armed atomic.Bool
	dev.onRun = func(string) error {
		if armed.CompareAndSwap(true, false) {
			panic(errFault)
		}
		return nil
	}
	e, _ := start(t, dev, engine.Options{Rows: []int{8, 3, 1}, Context: 64, Sequences: 3})
	request := engine.Request{Prompt: []int32{1, 403, 407}, MaxTokens: 20, IgnoreEOS: true}
	want, err := e.Generate(t.Context(), request, func(engine.Piece) error { return nil })
	require.NoError(t, err)
	panics, failures := 0, 0
	for round := 0; round < 5 || round < 200 && failures == 0; round++ {
		var mu sync.Mutex
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				pieces := 0
				var err error
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					switch v := recover(); {
					case v != nil && errors.Is(v.(error), errFault):
						panics++
					case err != nil:
						failures++
					}
				}()
				_, err = e.Generate(t.Context(), request, func(engine.Piece) error {
					if pieces++; pieces == 5 {
						armed.Store(true)
					}
					return nil
				})
			})
		}
		group.Wait()
		armed.Store(false)
		got, err := e.Generate(t.Context(), request, func(engine.Piece) error { return nil })
		require.NoError(t, err)
		require.Equal(t, want.Output, got.Output)
	}
	require.Positive(t, panics)
	require.Positive(t, failures, "no pass that panicked was shared")
}
