package qnn

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestContextsComeAndGoDuringExecutes tests what graph switching needs: one goroutine executes
// a graph while others load, execute and free contexts of their own.
func TestContextsComeAndGoDuringExecutes(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		l := newLinear(t, "l")
		g := l.build(t, s.backend, s.newContext(t), "g", nil)
		want := l.run(t, g)
		c := s.newContext(t)
		stored := newLinear(t, "stored")
		stored.build(t, s.backend, c, "stored", nil)
		size, err := c.BinarySize()
		require.NoError(t, err)
		image, err := c.Binary(make([]byte, size))
		require.NoError(t, err)

		failures := make(chan error, 3)
		var wait sync.WaitGroup
		for worker := range cap(failures) {
			wait.Go(func() {
				for range 8 {
					var err error
					if worker == 0 {
						err = runAgain(l, g, want)
					} else {
						err = loadAndRun(s, stored, image)
					}
					if err != nil {
						failures <- err
						return
					}
				}
			})
		}
		wait.Wait()
		close(failures)
		require.NoError(t, <-failures)
	})
}

func runAgain(l *linear, g *Graph, want []byte) error {
	output := make([]byte, 2*linearRows*linearOut)
	if err := g.Execute(l.bindings(output)); err != nil {
		return err
	}
	if want != nil && string(output) != string(want) {
		return fmt.Errorf("graph %s computed different bits", g.Name())
	}
	return nil
}

func loadAndRun(s *session, l *linear, image []byte) error {
	c, err := s.backend.LoadContext(s.device, image, ContextOptions{}, nil)
	if err != nil {
		return err
	}
	g, err := c.Graph(l.info("stored"))
	if err == nil {
		err = runAgain(l, g, nil)
	}
	if closed := c.Close(); err == nil {
		err = closed
	}
	return err
}

// BenchmarkCall measures one call through purego of a function that does almost nothing.
func BenchmarkCall(b *testing.B) {
	path, err := emulatorLibrary()
	if err != nil {
		b.Skip(err)
	}
	library, err := Open(path, Options{})
	require.NoError(b, err)
	defer func() { require.NoError(b, library.Close()) }()
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := library.HasCapability(CapabilityContextTensors); ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// BenchmarkExecute measures one execute of a small graph.
func BenchmarkExecute(b *testing.B) {
	path, err := emulatorLibrary()
	if err != nil {
		b.Skip(err)
	}
	s := openSession(b, path)
	l := newLinear(b, "l")
	g := l.build(b, s.backend, s.newContext(b), "g", nil)
	binding, err := g.Bind(l.bindings(make([]byte, 2*linearRows*linearOut)))
	require.NoError(b, err)
	require.NoError(b, s.log.SetLevel(LogError))
	b.ReportAllocs()
	for b.Loop() {
		if err := binding.Execute(nil); err != nil {
			b.Fatal(err)
		}
	}
}
