package qnn

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// linear is a graph y = x·wᵀ with its data and the sums computed in Go.
type linear struct {
	x, w, y Tensor
	op      *Op
	input   []byte
	want    []float64
}

// linearRows, linearIn and linearOut are the numbers of rows, inputs and outputs of the
// linear graph.
const linearRows, linearIn, linearOut = 8, 64, 96

func newLinear(t testing.TB, name string) *linear {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 5))
	x, w := make([]float64, linearRows*linearIn), make([]float64, linearOut*linearIn)
	l := &linear{want: make([]float64, linearRows*linearOut)}
	l.input = quarters(rng, x)
	l.x = Tensor{Name: name + "_x", Kind: AppWrite, Type: Float16, Dims: []uint32{linearRows, linearIn}}
	l.w = Tensor{Name: name + "_w", Kind: Static, Type: Float16, Dims: []uint32{linearOut, linearIn}, Data: quarters(rng, w)}
	l.y = Tensor{Name: name + "_y", Kind: AppRead, Type: Float16, Dims: []uint32{linearRows, linearOut}}
	for r := range linearRows {
		for o := range linearOut {
			for i := range linearIn {
				l.want[r*linearOut+o] += x[r*linearIn+i] * w[o*linearIn+i]
			}
		}
	}
	l.op = &Op{
		Name: name + "_fc", Type: "FullyConnected",
		Params: []Param{{Name: "keep_dims", Scalar: ScalarBool(false)}},
		Inputs: []*Tensor{&l.x, &l.w}, Outputs: []*Tensor{&l.y},
	}
	return l
}

// quarters fills v with multiples of 1/4 in [-2,2) and returns them as float16.
func quarters(rng *rand.Rand, v []float64) []byte {
	data := make([]byte, 2*len(v))
	for i := range v {
		v[i] = float64(rng.IntN(16)-8) / 4
		binary.LittleEndian.PutUint16(data[2*i:], smallFloat16(v[i]))
	}
	return data
}

// smallFloat16 encodes a number that is exact and normal in float16.
func smallFloat16(v float64) uint16 {
	if v == 0 {
		return 0
	}
	bits := math.Float64bits(v)
	return uint16(bits>>63<<15) | uint16(bits>>52&0x7ff-1023+15)<<10 | uint16(bits>>42&0x3ff)
}

// float16 decodes the bits of a float16 number.
func float16(bits uint16) float64 {
	sign, exponent, fraction := 1-2*float64(bits>>15), int(bits>>10&31), float64(bits&0x3ff)
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		return sign * math.Inf(1) // both infinity and NaN are decoded as infinity, which differs from every expected result
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// build creates, validates and finalizes the graph.
func (l *linear) build(t testing.TB, b *Backend, c *Context, name string, p *Profile) *Graph {
	t.Helper()
	g, err := c.NewGraph(name, GraphOptions{Optimization: 1})
	require.NoError(t, err)
	require.Equal(t, name, g.Name())
	require.NoError(t, b.Validate(l.op))
	for _, tensor := range []*Tensor{&l.x, &l.w, &l.y} {
		require.NoError(t, g.CreateTensor(tensor))
		require.NotZero(t, tensor.ID)
	}
	clear(l.w.Data) // the data may be cleared, because the library has copied it
	l.w.Data = nil
	require.NoError(t, g.AddNode(l.op))
	require.NoError(t, g.Finalize(p))
	return g
}

func (l *linear) bindings(output []byte) (in, out []ExecTensor) {
	return []ExecTensor{{ID: l.x.ID, Data: l.input}},
		[]ExecTensor{{ID: l.y.ID, Data: output}}
}

// info returns a description of the graph under the given name, for [Context.Graph].
func (l *linear) info(name string) GraphInfo {
	return GraphInfo{Name: name, Inputs: []Tensor{l.x}, Outputs: []Tensor{l.y}}
}

// run executes the graph and compares the output with sums that are computed in Go.
func (l *linear) run(t *testing.T, g *Graph) []byte {
	t.Helper()
	output := make([]byte, 2*linearRows*linearOut)
	require.NoError(t, g.Execute(l.bindings(output)))
	l.check(t, output)
	return output
}

func (l *linear) check(t *testing.T, output []byte) {
	t.Helper()
	errorSquares, squares := 0.0, 0.0
	for i, want := range l.want {
		d := float16(binary.LittleEndian.Uint16(output[2*i:])) - want
		errorSquares, squares = errorSquares+d*d, squares+want*want
	}
	require.Less(t, math.Sqrt(errorSquares/squares), 1e-3)
}

func TestLinearGraphAgreesWithGo(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		c := s.newContext(t)
		l := newLinear(t, "l")
		g := l.build(t, s.backend, c, "g", nil)
		first := l.run(t, g)
		require.Equal(t, first, l.run(t, g), "a second execute")

		found, err := c.Graph(l.info("g"))
		require.NoError(t, err)
		require.Equal(t, first, l.run(t, found))
		_, err = c.Graph(l.info("other"))
		require.ErrorIs(t, err, ErrGraphName)
	})
}

func TestImageComputesTheSameBits(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		c := s.newContext(t)
		l := newLinear(t, "l")
		first := l.run(t, l.build(t, s.backend, c, "g", nil))

		size, err := c.BinarySize()
		require.NoError(t, err)
		_, err = c.Binary(make([]byte, size/2))
		require.Error(t, err, "the buffer is too small")
		image, err := c.Binary(make([]byte, size))
		require.NoError(t, err)
		require.NotEmpty(t, image)
		require.NoError(t, c.Close())

		loaded, err := s.backend.LoadContext(s.device, image, ContextOptions{}, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, loaded.Close()) }()
		g, err := loaded.Graph(l.info("g"))
		require.NoError(t, err)
		require.Equal(t, first, l.run(t, g))

		_, err = s.backend.LoadContext(s.device, image[:len(image)/2], ContextOptions{}, nil)
		var failed *Error
		require.ErrorAs(t, err, &failed, "half an image")
	})
}

func TestPersistentImageComputesTheSameBitsOrIsUnsupported(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		c := s.newContext(t)
		l := newLinear(t, "l")
		first := l.run(t, l.build(t, s.backend, c, "g", nil))
		size, err := c.BinarySize()
		require.NoError(t, err)
		image, err := c.Binary(make([]byte, size))
		require.NoError(t, err)
		loaded, err := s.backend.LoadContext(s.device, image, ContextOptions{Persistent: true, EnableGraphs: []string{"g"}}, nil)
		if err != nil {
			require.ErrorIs(t, err, errors.ErrUnsupported)
			return
		}
		defer func() { require.NoError(t, loaded.Close()) }()
		require.NotNil(t, loaded.image)
		g, err := loaded.Graph(l.info("g"))
		require.NoError(t, err)
		require.Equal(t, first, l.run(t, g))
	})
}

func TestProfileMeasuresAnExecute(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		p, err := s.backend.NewProfile(ProfileBasic)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		l := newLinear(t, "l")
		g := l.build(t, s.backend, s.newContext(t), "g", p)
		b, err := g.Bind(l.bindings(make([]byte, 2*linearRows*linearOut)))
		require.NoError(t, err)
		require.NoError(t, b.Execute(p))
		events, err := p.Events()
		require.NoError(t, err)
		found := false
		for _, e := range events {
			found = found || e.Type == EventExecute && e.Unit == UnitMicroseconds
		}
		require.True(t, found, "%+v", events)
	})
}

func TestReboundMemoryIsUsed(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		l := newLinear(t, "l")
		g := l.build(t, s.backend, s.newContext(t), "g", nil)
		first, second := make([]byte, 2*linearRows*linearOut), make([]byte, 2*linearRows*linearOut)
		b, err := g.Bind(l.bindings(first))
		require.NoError(t, err)
		in, out := l.bindings(second)
		zeros := in[0]
		zeros.Data = make([]byte, len(l.input))
		require.NoError(t, b.SetInput(0, zeros))
		require.NoError(t, b.Execute(nil))
		require.Equal(t, second, first, "zeros in, zeros out")
		require.NoError(t, b.SetInput(0, in[0]))
		require.NoError(t, b.SetOutput(0, out[0]))
		require.NoError(t, b.Execute(nil))
		l.check(t, second)
		require.Equal(t, make([]byte, len(first)), first, "the old output does not change")
	})
}

func TestExecuteRejectsWrongBuffers(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		l := newLinear(t, "l")
		g := l.build(t, s.backend, s.newContext(t), "g", nil)
		output := make([]byte, 2*linearRows*linearOut)
		in, out := l.bindings(output)
		b, err := g.Bind(in, out)
		require.NoError(t, err)
		x, y := in[0], out[0]
		x.Data = l.input[1:]
		require.ErrorIs(t, b.SetInput(0, x), ErrSize)
		for _, wrong := range [][]byte{nil, append(output, 0)} {
			y.Data = wrong
			require.ErrorIs(t, b.SetOutput(0, y), ErrSize)
		}
		require.ErrorIs(t, b.SetInput(1, in[0]), ErrGraphTensor)
		require.ErrorIs(t, b.SetInput(-1, in[0]), ErrGraphTensor)
		require.ErrorIs(t, b.SetInput(0, out[0]), ErrGraphTensor, "another tensor")
		require.NoError(t, b.Execute(nil), "a rejected buffer changes nothing")
		l.check(t, output)
		require.ErrorIs(t, g.Execute(nil, out), ErrGraphTensor)
		require.ErrorIs(t, g.Execute(append(in, in[0]), out), ErrGraphTensor)
		in[0].ID = 0
		require.ErrorIs(t, g.Execute(in, out), ErrGraphTensor)
		in[0].ID = 4711
		require.ErrorIs(t, g.Execute(in, out), ErrGraphTensor)
	})
}

func TestBrokenGraphsReturnTheirCodes(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		c := s.newContext(t)
		l := newLinear(t, "l")
		g := l.build(t, s.backend, c, "g", nil)
		_, err := c.NewGraph("g", GraphOptions{})
		require.ErrorIs(t, err, ErrGraphName, "the name is already used")
		// 1100 is the vendor's code for an unspecified error
		if err := g.AddNode(l.op); !errors.Is(err, &Error{Code: 1100}) {
			require.ErrorIs(t, err, ErrFinalized)
		}

		open, err := c.NewGraph("open", GraphOptions{VTCMMegabytes: 4, HVXThreads: 2, Priority: PriorityHigh})
		require.NoError(t, err)
		x, y := l.x, l.y
		require.NoError(t, open.CreateTensor(&x))
		require.ErrorIs(t, open.CreateTensor(&x), ErrTensorExists)
		require.NoError(t, open.CreateTensor(&y))
		in, out := l.bindings(make([]byte, 2*linearRows*linearOut))
		in[0].ID, out[0].ID = x.ID, y.ID
		require.ErrorIs(t, open.Execute(in, out), ErrNotFinalized)

		unknown := *l.op
		unknown.Type = "NoSuchOperator"
		err = s.backend.Validate(&unknown)
		require.ErrorIs(t, err, ErrOpUnknown)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		misfit := *l.op
		narrow := l.w
		narrow.Dims = []uint32{linearOut, linearIn - 1}
		misfit.Inputs = []*Tensor{&l.x, &narrow}
		require.ErrorIs(t, s.backend.Validate(&misfit), ErrOpInvalid)
	})
}

func TestExecuteAllocatesAlmostNothing(t *testing.T) {
	onEachLibrary(t, func(t *testing.T, path string) {
		s := openSession(t, path)
		l := newLinear(t, "l")
		g := l.build(t, s.backend, s.newContext(t), "g", nil)
		b, err := g.Bind(l.bindings(make([]byte, 2*linearRows*linearOut)))
		require.NoError(t, err)
		// only errors are logged, because a logged line allocates memory
		require.NoError(t, s.log.SetLevel(LogError))
		require.NoError(t, b.Execute(nil))
		allocs := testing.AllocsPerRun(20, func() {
			if err := b.Execute(nil); err != nil {
				t.Error(err)
			}
		})
		require.LessOrEqual(t, allocs, 1.0)
	})
}
