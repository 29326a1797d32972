package backendtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
)

func deviceCases() []testCase {
	return []testCase{
		{"device/capabilities", func(t *testing.T, s *suite) {
			c := s.device.Capabilities()
			require.Contains(t, []backend.Lane{backend.NPU, backend.CPU}, c.Lane)
			require.NotEmpty(t, c.Name)
			require.NotEmpty(t, c.Provider)
			require.NotEmpty(t, c.BuildID)
			require.NotEmpty(t, c.Fingerprint)
			require.Equal(t, c, s.device.Capabilities())
		}},
		{"device/buffer", func(t *testing.T, s *suite) {
			for _, size := range []int{1, 63, 64, 100_000} {
				b, err := s.device.NewBuffer(size)
				require.NoError(t, err)
				require.Equal(t, make([]byte, size), b.Bytes(), "a new buffer must contain zeros")
				b.Bytes()[size-1] = 7
				require.Equal(t, byte(7), b.Bytes()[size-1])
				require.NoError(t, b.Close())
				require.NoError(t, b.Close(), "closing again")
			}
		}},
		{"device/buffer-of-no-size", func(t *testing.T, s *suite) {
			for _, size := range []int{0, -1, math.MinInt} {
				_, err := s.device.NewBuffer(size)
				require.Error(t, err, "%d bytes", size)
			}
		}},
		{"device/buffer-too-large", func(t *testing.T, s *suite) {
			_, err := s.device.NewBuffer(math.MaxInt / 2)
			require.ErrorIs(t, err, backend.ErrNoMemory)
		}},
	}
}

// small returns a test graph with two outputs, of which one is also read by other
// nodes.
func (s *suite) small(t *testing.T, name string, rows int) (*backend.Graph, map[string][]byte) {
	m := newMaker(t, "small", s.options.Type)
	m.Builder = backend.NewBuilder(name)
	weight, bias := m.constant("weight", 48, 32), m.constant("bias", 48)
	x := m.input("x", rows, 32)
	hidden := m.FullyConnected("hidden", x, weight, bias)
	gate := m.Apply("gate", backend.Sigmoid, []backend.TensorID{hidden})
	y := m.Apply("y", backend.Multiply, []backend.TensorID{hidden, gate})
	return m.graph(hidden, y), m.inputs
}

func graphCases() []testCase {
	return []testCase{
		{"graph/signature", func(t *testing.T, s *suite) {
			g, _ := s.small(t, "g", 8)
			got, err := s.load(t, s.compile(t, g)).Signature("g")
			require.NoError(t, err)
			require.Equal(t, g.Signature(), got)
		}},
		{"graph/output-that-nodes-read", func(t *testing.T, s *suite) {
			g, inputs := s.small(t, "g", 8)
			s.check(t, Block, g, inputs)
		}},
		{"graph/invalid", func(t *testing.T, s *suite) {
			good, _ := s.small(t, "good", 8)
			bad, _ := s.small(t, "bad", 8)
			bad.Nodes[1].Inputs = nil
			require.ErrorIs(t, s.device.Compile(t.Context(), io.Discard, good, bad), backend.ErrInvalidGraph)
			require.ErrorContains(t, s.device.Compile(t.Context(), io.Discard, bad), "gate", "the error must name the node")
			require.ErrorIs(t, s.device.Compile(t.Context(), io.Discard, good, good), backend.ErrInvalidGraph, "equal names")
			require.ErrorIs(t, s.device.Compile(t.Context(), io.Discard), backend.ErrInvalidGraph, "no graphs")
		}},
		{"graph/values-that-fail", func(t *testing.T, s *suite) {
			g, _ := s.small(t, "g", 8)
			lost := errors.New("the test removed the file of the constant")
			for i := range g.Tensors {
				if g.Tensors[i].Kind == backend.Constant {
					g.Tensors[i].Values = backend.Values{ID: "lost", Fill: func([]byte) error { return lost }}
				}
			}
			require.ErrorIs(t, s.device.Compile(t.Context(), io.Discard, g), lost)
		}},
		{"graph/writer-that-fails", func(t *testing.T, s *suite) {
			g, _ := s.small(t, "g", 8)
			require.ErrorIs(t, s.device.Compile(t.Context(), fullDisk{}, g), errFull)
		}},
		{"graph/cancelled", func(t *testing.T, s *suite) {
			g, inputs := s.small(t, "g", 8)
			p := s.load(t, s.compile(t, g))
			signature, err := p.Signature("g")
			require.NoError(t, err)
			m, err := s.bind(signature, inputs)
			require.NoError(t, err)
			before := bytes.Clone(m.buffer.Bytes())
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, p.Run(ctx, "g", m.bindings), context.Canceled)
			require.Equal(t, before, m.buffer.Bytes(), "no graph ran")
			require.NoError(t, m.buffer.Close())
		}},
	}
}

var errFull = errors.New("no space left")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }
