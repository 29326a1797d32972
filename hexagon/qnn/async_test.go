package qnn

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestRunsInLineTellWhenTheyEnd(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		l, c, g, _ := s.saved(t)
		outputs := make([][]byte, 8)
		ended := make(chan error, len(outputs)+1)
		for i := range outputs {
			outputs[i] = make([]byte, 2*linearRows*linearOut)
			b, err := g.Bind(l.bindings(outputs[i]))
			require.NoError(t, err)
			err = b.ExecuteAsync(nil, nil, func(err error) { ended <- err })
			if !s.isEmulator() {
				require.ErrorIs(t, err, ErrNotSupported)
				return
			}
			require.NoError(t, err)
		}
		for range outputs {
			require.NoError(t, <-ended)
		}
		for _, output := range outputs {
			l.check(t, output)
		}
		// A run that the library refuses tells so when it is its turn.
		in, out := l.bindings(outputs[0])
		in[0].ID = 999
		b, err := g.Bind(in, out)
		require.NoError(t, err)
		require.NoError(t, b.ExecuteAsync(nil, nil, func(err error) { ended <- err }))
		require.ErrorIs(t, <-ended, ErrGraphTensor)
		require.Empty(t, ended, "nobody is told twice")
		require.NoError(t, c.Close())
		require.ErrorIs(t, b.ExecuteAsync(nil, nil, func(error) { t.Error("of a closed context") }), ErrClosed)
	})
}

func TestImagesAreLoadedAsAList(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		l, _, _, image := s.saved(t)
		images := []Listed{{Image: image}, {Image: image, Options: ContextOptions{EnableGraphs: []string{"g"}}}, {Image: image}}
		for _, shared := range []bool{false, true} {
			contexts, err := s.backend.LoadContexts(s.device, images, shared)
			if !s.isEmulator() {
				require.ErrorIs(t, err, ErrNotSupported)
				continue
			}
			require.NoError(t, err)
			require.Len(t, contexts, len(images))
			for _, c := range contexts {
				g, err := c.Graph("g")
				require.NoError(t, err)
				l.run(t, g)
				require.NoError(t, c.Close())
			}
		}
		if s.isEmulator() {
			images[1].Image = bytes.Repeat([]byte("no image"), 100)
			contexts, err := s.backend.LoadContexts(s.device, images, false)
			require.Empty(t, contexts)
			require.ErrorContains(t, err, "image 1: ")
		}
		contexts, err := s.backend.LoadContexts(s.device, []Listed{{Options: ContextOptions{EnableGraphs: []string{"\x00"}}}}, false)
		require.ErrorIs(t, err, ErrName)
		require.Empty(t, contexts)
	})
}

func TestImagesAreLentInParts(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		l, _, _, image := s.saved(t)
		for _, shared := range []bool{false, true} {
			lent, given := 0, 0
			lender := Lender{
				Shared:  shared,
				Provide: func(offset, size uint64) (Part, error) { lent++; return Part{Data: image[offset:][:size], FD: -1}, nil },
				Release: func(p Part) { given++; require.Equal(t, &image[0], &p.Data[0]) },
			}
			c, err := s.backend.LoadContextFrom(s.device, image, lender, ContextOptions{}, nil)
			if !s.isEmulator() {
				require.ErrorIs(t, err, ErrNotSupported)
				require.Equal(t, lent, given)
				continue
			}
			require.NoError(t, err)
			g, err := c.Graph("g")
			require.NoError(t, err)
			l.run(t, g)
			require.NoError(t, c.Close())
			require.Equal(t, []int{1, 1}, []int{lent, given})

			lost := errors.New("the disk is gone")
			lender.Provide = func(uint64, uint64) (Part, error) { return Part{}, lost }
			_, err = s.backend.LoadContextFrom(s.device, image, lender, ContextOptions{}, nil)
			require.ErrorIs(t, err, lost)
			lender.Provide = func(_, size uint64) (Part, error) { return Part{Data: make([]byte, size-1)}, nil }
			_, err = s.backend.LoadContextFrom(s.device, image, lender, ContextOptions{}, nil)
			require.ErrorIs(t, err, ErrSize)
		}
	})
	waiting.Range(func(number, w any) bool {
		t.Errorf("%v still waits: %T", number, w)
		return true
	})
}

// TestPartsBeyondTheImageAreNotProvided asks as no sound library does.
func TestPartsBeyondTheImageAreNotProvided(t *testing.T) {
	asked := false
	l := &lending{size: 100, lent: map[uintptr]Part{}, lender: Lender{Provide: func(_, size uint64) (Part, error) {
		asked = true
		return Part{Data: make([]byte, size)}, nil
	}}}
	l.number = await(l)
	defer forget(l.number)
	var raw cRawResponse
	for _, r := range []cDataRequest{{offset: 101, size: 1}, {offset: 50, size: 51}, {size: 0}, {offset: math.MaxUint64, size: 2}, {offset: 2, size: math.MaxUint64}} {
		require.Equal(t, notProvided, provideRaw(r, unsafe.Pointer(&raw), l.number))
		require.ErrorIs(t, l.failure, ErrSize)
	}
	require.False(t, asked)
	require.Zero(t, provideRaw(cDataRequest{offset: 50, size: 50}, unsafe.Pointer(&raw), l.number))
	require.EqualValues(t, 50, raw.aligned)
	require.Equal(t, notProvided, provideShared(cDataRequest{size: 1}, unsafe.Pointer(&cSharedResponse{}), 1<<40), "nobody waits under this number")
	released(l.number, 4711) // was never lent
	require.Len(t, l.lent, 1)
	released(l.number, raw.data)
	require.Empty(t, l.lent)
	runtime.KeepAlive(raw)
}

func TestPropertiesAreAnsweredAsRecorded(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		_, c, g, image := s.saved(t)
		loaded, err := s.backend.LoadContext(s.device, image, ContextOptions{}, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, loaded.Close()) }()
		for _, c := range []*Context{c, loaded} {
			for p, least := range map[ContextProperty]uint64{ContextAlignment: 1, ContextSpillBytes: 0, ContextWeightBytes: 2 * linearIn * linearOut} {
				n, err := c.Property(p)
				if !s.isEmulator() {
					require.ErrorIs(t, err, ErrNotSupported)
					continue
				}
				require.NoError(t, err)
				require.GreaterOrEqual(t, n, least, p)
				require.Less(t, n, uint64(len(image))+4096, p)
			}
			_, err := c.Property(9)
			require.ErrorIs(t, err, ErrNotSupported)
		}
		_, err = g.Property(1)
		require.ErrorIs(t, err, ErrNotSupported)
		_, err = s.backend.Property(1)
		requireCode(t, 4003, err, "a backend has a code of its own for it")
	})
}

func TestSectionsAreAnsweredAsRecorded(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		_, c, g, _ := s.saved(t)
		size, get, apply := Code(1000), Code(1000), Code(1000)
		if !s.isEmulator() { // a graph without tensors that can be updated has a header only
			size, get, apply = 0, 5007, 1009
		}
		for _, of := range []*Graph{g, nil} {
			for _, section := range []Section{SectionUpdated, SectionWeights, SectionScales} {
				n, err := c.SectionBytes(of, section)
				requireCode(t, size, err, section)
				require.Equal(t, size == 0, n > 0)
			}
		}
		_, err := c.SectionBytes(g, 4)
		require.Error(t, err)
		_, err = c.Section(g, SectionUpdated, make([]byte, 1<<16))
		requireCode(t, get, err, "of a graph that cannot be updated")
		requireCode(t, apply, c.ApplySection(g, SectionUpdated, make([]byte, 100)), "zeros")
	})
}

// TestMappedEncodingsOfTheVendorsLibrary: 2.40 computes with one of the three, in
// one operator; two it takes and ignores. The emulator refuses all.
func TestMappedEncodingsOfTheVendorsLibrary(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		const in, out = 64, 32
		scales, data := make([]float32, out), make([]byte, in*out)
		for i := range data {
			data[i] = byte(int8(i*i%7%4 - 2))
		}
		for o := range scales {
			scales[o] = 0.02 + 0.001*float32(o)
		}
		x := Tensor{Name: "x", Kind: AppWrite, Type: UFixed16, Dims: []uint32{1, 1, 1, in}, Quantization: &Quantization{Encoding: ScaleOffset, Scales: []float32{1.0 / 8192}, Offsets: []int32{-32768}}}
		w := Tensor{Name: "w", Kind: Static, Type: Fixed8, Dims: []uint32{1, 1, in, out}, Data: data, Quantization: &Quantization{Encoding: BitsAxisMapped, Bits: 2, Mapping: MapExcludeZero, Axis: 3, Scales: scales}}
		y := Tensor{Name: "y", Kind: AppRead, Type: UFixed16, Dims: []uint32{1, 1, 1, out}, Quantization: &Quantization{Encoding: ScaleOffset, Scales: []float32{1.0 / 4096}, Offsets: []int32{-32768}}}
		stride := Tensor{Name: "stride", Kind: Static, Type: Uint32, Dims: []uint32{2}, Data: []byte{1, 0, 0, 0, 1, 0, 0, 0}}
		pad := Tensor{Name: "pad", Kind: Static, Type: Uint32, Dims: []uint32{2, 2}, Data: make([]byte, 16)}
		op := &Op{Name: "n", Type: "Conv2d", Params: []Param{{Name: "stride", Tensor: &stride}, {Name: "pad_amount", Tensor: &pad}}, Inputs: []*Tensor{&x, &w}, Outputs: []*Tensor{&y}}
		g, err := s.newContext(t).NewGraph("g", GraphOptions{})
		require.NoError(t, err)
		if s.isEmulator() {
			for _, q := range everyEncoding(rand.New(rand.NewPCG(1, 9))) {
				if q.Encoding >= BitsAxisMapped && q.Encoding <= BlockwiseExpansionMapped {
					err := g.CreateTensor(&Tensor{Name: "w", Kind: Static, Type: Fixed8, Dims: []uint32{4, 24}, Data: make([]byte, 96), Quantization: q})
					require.ErrorIs(t, err, ErrTensorParameter, q.Encoding)
				}
			}
			return
		}
		require.NoError(t, s.backend.Validate(op))
		for _, tensor := range []*Tensor{&x, &w, &stride, &pad, &y} {
			require.NoError(t, g.CreateTensor(tensor))
		}
		require.NoError(t, g.AddNode(op))
		require.NoError(t, g.Finalize(nil))
		one, output := bytes.Repeat([]byte{0x00, 0xa0}, in), make([]byte, 2*out) // 0xa000 is 1
		require.NoError(t, g.Execute([]ExecTensor{{ID: x.ID, SizeBytes: 2 * in, Data: one}}, []ExecTensor{{ID: y.ID, SizeBytes: 2 * out, Data: output}}))
		for o := range out {
			sum := 0.0
			for i := range in {
				sum += float64(int8(data[i*out+o])) + 0.5
			}
			got := (float64(uint16(output[2*o])|uint16(output[2*o+1])<<8) - 32768) / 4096
			require.InDelta(t, sum*float64(scales[o]), got, 2.0/4096, "output %d", o)
		}
	})
}

func TestWaitersAreToldFromManyThreads(t *testing.T) {
	const each = 100
	var told, all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range each {
				told.Add(1)
				r := &run{done: func(error) { told.Done() }}
				r.number = await(r)
				waiterOf(r.number).notified(0, 0, 0)
				r.notified(0, 0, 0) // a second time does nothing, or told would panic
				require.Nil(t, waiterOf(r.number))
			}
		})
	}
	all.Wait()
	told.Wait()
}
