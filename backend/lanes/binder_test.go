package lanes

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/cpu"
)

// binders is a device whose programs record for which graphs memory is registered.
type binders struct {
	backend.Device
	bound map[string]int // bound counts the registered ports of each graph
}

type binder struct {
	backend.Program
	of *binders
}

func (d *binders) Load(ctx context.Context, i backend.Image) (backend.Program, error) {
	p, err := d.Device.Load(ctx, i)
	return binder{p, d}, err
}

func (b binder) Bind(graph string, bindings []backend.Binding) error {
	b.of.bound[graph] = len(bindings)
	return nil
}

func (b binder) Unbind(graph string) error {
	delete(b.of.bound, graph)
	return nil
}

// TestTheMemoryOfAllPartsIsRegistered requires that Bind registers the memory of each part, and that
// Unbind ends all registrations.
func TestTheMemoryOfAllPartsIsRegistered(t *testing.T) {
	inner := &binders{cpu.New(cpu.Options{}), make(map[string]int)}
	d := New(inner, drawColumns(rand.New(rand.NewPCG(9, 10))))
	defer d.Close()
	var image bytes.Buffer
	require.NoError(t, d.Compile(t.Context(), &image, twoSteps(t, 2)))
	loaded, err := d.Load(t.Context(), backend.Image{Bytes: image.Bytes(), Own: true})
	require.NoError(t, err)
	defer loaded.Close()
	p, ok := loaded.(backend.Binder)
	require.True(t, ok)
	memory, err := d.NewBuffer(2 * 2 * channels)
	require.NoError(t, err)
	require.NoError(t, p.Bind("g2", []backend.Binding{{Buffer: memory}, {Buffer: memory}}))
	var ports []int
	for _, n := range inner.bound {
		ports = append(ports, n)
	}
	require.ElementsMatch(t, []int{2, 3, 3}, ports, "inputs and outputs of three parts")
	require.NoError(t, p.Unbind("g2"))
	require.Empty(t, inner.bound)
}
