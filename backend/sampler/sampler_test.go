package sampler

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var inf = float32(math.Inf(1))

type allow func(int32) bool

func (a allow) Allowed(t int32) bool { return a(t) }
func (a allow) Accept(int32)         {}

func randomOptions(rng *rand.Rand) Options {
	pick := func(v ...float32) float32 { return v[rng.IntN(len(v))] }
	return Options{
		Temperature:      pick(0, -1, 0.3, 0.8, 1, 2),
		TopK:             rng.IntN(30) - 5,
		TopP:             pick(0, 0.1, 0.5, 0.9, 0.99, 1),
		MinP:             pick(0, 0, 0.05, 0.3, 1, 2),
		TypicalP:         pick(0, 0, 1, 0.2, 0.7, 0.95),
		RepeatPenalty:    pick(0, 1, 1.1, 1.5, 0.7),
		FrequencyPenalty: pick(0, 0, 0.4, -0.3),
		PresencePenalty:  pick(0, 0, 0.5, -0.2),
		RepeatLastN:      rng.IntN(12) - 1,
		Seed:             rng.Uint64(),
		Bias:             randomBias(rng, -100, -0.5, 2, 100),
	}
}

// randomBias returns biases with some of the given numbers for some of the first tokens, or no
// biases.
func randomBias(rng *rand.Rand, numbers ...float32) (list []Bias) {
	if rng.IntN(3) > 0 {
		return nil
	}
	for token := rng.Int32N(4); token < 40; token += 1 + rng.Int32N(9) {
		list = append(list, Bias{token, numbers[rng.IntN(len(numbers))]})
	}
	return list
}

func randomLogits(rng *rand.Rand, n int) []float32 {
	logits := make([]float32, n)
	for i := range logits {
		switch rng.IntN(12) {
		case 0:
			logits[i] = -inf
		case 1:
			logits[i] = float32(rng.IntN(3)) // ties
		default:
			logits[i] = float32(rng.NormFloat64() * 3)
		}
	}
	if rng.IntN(20) == 0 {
		logits[rng.IntN(n)] = inf
	}
	logits[rng.IntN(n)] = 1 // at least one token must have a finite logit
	return logits
}

func accept(s *Sampler, tokens []int32) {
	for _, t := range tokens {
		s.Accept(t)
	}
}

func TestFiltersAgreeWithOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		o, logits := randomOptions(rng), randomLogits(rng, 1+rng.IntN(40))
		recent := make([]int32, rng.IntN(20))
		for i := range recent {
			recent[i] = int32(rng.IntN(len(logits) + 3))
		}
		var mask Mask
		if rng.IntN(3) == 0 {
			must := int32(slices.Index(logits, 1))
			mask = allow(func(t int32) bool { return t%2 == 0 || t == must })
		}
		want := distribution(o, logits, recent, mask)
		s, err := New(o)
		require.NoError(t, err)
		accept(s, recent)
		before := slices.Clone(logits)
		got, err := s.Sample(logits, mask)
		require.NoError(t, err)
		require.Equal(t, before, logits, "the logits belong to the caller")
		require.Positive(t, want[got], "%+v drew %d of %v", o, got, logits)

		if o.Temperature <= 0 {
			continue
		}
		require.Len(t, s.cands, countPositive(want), "%+v, logits %v", o, logits)
		total := 0.0
		for _, c := range s.cands {
			total += c.p
		}
		for _, c := range s.cands {
			require.InDelta(t, want[c.id], c.p/total, 1e-9, "%+v, token %d", o, c.id)
		}
	}
}

// countPositive counts the tokens whose probability is positive.
func countPositive(p []float64) (n int) {
	for _, v := range p {
		if v > 0 {
			n++
		}
	}
	return n
}

func TestDrawsFollowExactProbabilities(t *testing.T) {
	for _, o := range []Options{
		{Temperature: 1},
		{Temperature: 0.8, TopK: 40, TopP: 0.9, RepeatPenalty: 1.1, RepeatLastN: 64},
		{Temperature: 1.5, TypicalP: 0.8},
		{Temperature: 1.2, MinP: 0.02},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 7))
			logits := make([]float32, 12)
			for i := range logits {
				logits[i] = float32(rng.NormFloat64())
			}
			recent := []int32{1, 2, 2, 5}
			want := distribution(o, logits, recent, nil)
			s, err := New(o)
			require.NoError(t, err)
			accept(s, recent)
			const draws = 40000
			seen := make([]float64, len(logits))
			for range draws {
				id, err := s.Sample(logits, nil)
				require.NoError(t, err)
				seen[id]++
			}
			chi, free := 0.0, -1
			for id, p := range want {
				if p == 0 {
					require.Zero(t, seen[id])
					continue
				}
				chi += (seen[id] - draws*p) * (seen[id] - draws*p) / (draws * p)
				free++
			}
			// For n degrees of freedom, chi has the mean n and the standard deviation √(2n). With a
			// correct sampler, chi exceeds its mean by five standard deviations in about one of a
			// million tests.
			require.Less(t, chi, float64(free)+5*math.Sqrt(2*float64(free)))
		})
	}
}

func TestEqualSeedsGiveEqualTokens(t *testing.T) {
	logits := randomLogits(rand.New(rand.NewPCG(3, 3)), 50)
	different := map[string]bool{}
	for seed := range uint64(1000) {
		o := Options{Temperature: 1.3, TopK: 40, TopP: 0.95, RepeatPenalty: 1.1, RepeatLastN: 8, Seed: seed}
		a, err := New(o)
		require.NoError(t, err)
		b, err := New(o)
		require.NoError(t, err)
		generator := rand.NewPCG(seed, stream)
		var text []int32
		for range 12 {
			x, err := a.Sample(logits, nil)
			require.NoError(t, err)
			a.Accept(x)
			// A call of Sample that fails must not change the tokens that are drawn later.
			_, err = b.Sample(nil, nil)
			require.ErrorIs(t, err, ErrLogits)
			_, err = b.Sample(logits, allow(func(int32) bool { return false }))
			require.ErrorIs(t, err, ErrNoToken)
			y, err := b.Sample(logits, nil)
			require.NoError(t, err)
			b.Accept(y)
			require.Equal(t, x, y)
			generator.Uint64()
			text = append(text, x)
		}
		require.Equal(t, generator, a.pcg, "one number per token")
		different[fmt.Sprint(text)] = true
	}
	require.Greater(t, len(different), 950, "seeds must matter")
}

func TestNucleusIsMinimal(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 500 {
		p := 0.01 + 0.98*rng.Float32()
		logits := randomLogits(rng, 30)
		for i := range logits {
			logits[i] = min(logits[i], 100)
		}
		plain := distribution(Options{Temperature: 1}, logits, nil, nil)
		s, err := New(Options{Temperature: 1, TopP: p})
		require.NoError(t, err)
		_, err = s.Sample(logits, nil)
		require.NoError(t, err)
		mass, least := 0.0, 1.0
		kept := map[int32]bool{}
		for _, c := range s.cands {
			kept[c.id] = true
			mass += plain[c.id]
			least = min(least, plain[c.id])
		}
		require.GreaterOrEqual(t, mass, float64(p)-1e-12)
		require.Less(t, mass-least, float64(p)+1e-12, "one token fewer would suffice")
		for id, q := range plain {
			require.False(t, !kept[int32(id)] && q > least, "a better token was left out")
		}
	}
}

func TestGreedyTakesLowestIDAmongEquals(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		recent  []int32
		logits  []float32
		want    int32
	}{
		{"tie", Options{}, nil, []float32{1, 3, 3, 2}, 1},
		{"the penalty decides", Options{RepeatPenalty: 2, RepeatLastN: 4}, []int32{1}, []float32{1, 3, 2, 2}, 2},
		{"a negative logit grows away", Options{RepeatPenalty: 2, RepeatLastN: 4}, []int32{0}, []float32{-1, -1.5}, 1},
		{"outside the window", Options{RepeatPenalty: 2, RepeatLastN: 2}, []int32{1, 0, 0}, []float32{1, 3, 2}, 1},
		{"whole context", Options{PresencePenalty: 2, RepeatLastN: -1}, []int32{1, 0, 0}, []float32{1, 3, 2}, 2},
		{"frequency counts", Options{FrequencyPenalty: 0.6, RepeatLastN: -1}, []int32{1, 1, 2}, []float32{0, 3, 2.5}, 2},
		{"penalties without a window", Options{RepeatPenalty: 9}, []int32{1}, []float32{1, 3}, 1},
		{"infinity", Options{}, nil, []float32{1, inf, inf}, 1},
		{"overflow stays finite", Options{RepeatPenalty: 1e-30, RepeatLastN: 1}, []int32{0}, []float32{1e30, inf}, 1},
		{"a crushed token is still a token", Options{RepeatPenalty: 1e30, RepeatLastN: 1}, []int32{0}, []float32{-1e30, -inf}, 0},
		{"negative ids are no tokens", Options{RepeatPenalty: 2, RepeatLastN: 4}, []int32{-1, 1, -5}, []float32{2, 3}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.options)
			require.NoError(t, err)
			accept(s, c.recent)
			got, err := s.Sample(c.logits, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestWindowForgetsOldest(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, n := range []int{-1, 1, 2, 7, math.MaxInt} {
		h := history{n: n}
		var all []int32
		for range 300 {
			token := int32(rng.IntN(9))
			h.add(token)
			all = append(all, token)
			for id := range int32(9) {
				got := 0
				if i, ok := slices.BinarySearchFunc(h.counts, id, byID); ok {
					got = int(h.counts[i].times)
				}
				require.Equal(t, occurrences(Options{RepeatLastN: n}, all, int(id)), got)
			}
		}
	}
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	nan := float32(math.NaN())
	for _, o := range []Options{
		{Temperature: nan},
		{Temperature: inf},
		{TopP: nan},
		{TopP: -0.1},
		{MinP: nan},
		{MinP: -1},
		{TypicalP: -1},
		{RepeatPenalty: -1},
		{RepeatPenalty: inf},
		{FrequencyPenalty: nan},
		{PresencePenalty: -inf},
		{RepeatLastN: -2},
		{Bias: []Bias{{0, nan}}},
		{Bias: []Bias{{0, inf}}},
		{Bias: []Bias{{1, 0}, {1, 0}}},
	} {
		_, err := New(o)
		require.ErrorIs(t, err, ErrOptions, "%+v", o)
	}
	for _, o := range []Options{{}, {Temperature: 1}, {Temperature: 1, TopK: 1}} {
		s, err := New(o)
		require.NoError(t, err)
		_, err = s.Sample([]float32{1, 2, nan}, nil)
		require.ErrorIs(t, err, ErrLogits)
		_, err = s.Sample([]float32{-inf, -inf}, nil)
		require.ErrorIs(t, err, ErrNoToken)
		_, err = s.Sample([]float32{-inf, 2}, allow(func(t int32) bool { return t == 0 }))
		require.ErrorIs(t, err, ErrNoToken)
	}
}

func TestBiasForbidsTokens(t *testing.T) {
	for _, o := range []Options{{}, {Temperature: 1}, {Temperature: 1, TopK: 2}} {
		o.Bias = []Bias{{1, -inf}, {2, -inf}, {7, 3}}
		s, err := New(o)
		require.NoError(t, err)
		token, err := s.Sample([]float32{1, 2, inf, -inf}, nil)
		require.NoError(t, err)
		require.Zero(t, token)
		_, err = s.Sample([]float32{-inf, 2}, nil)
		require.ErrorIs(t, err, ErrNoToken)
	}
}

func TestMaskIsAskedAboutFewTokens(t *testing.T) {
	logits := make([]float32, 10000)
	for i := range logits {
		logits[i] = -float32(i)
	}
	asked := 0
	s, err := New(Options{Temperature: 1, TopK: 40})
	require.NoError(t, err)
	_, err = s.Sample(logits, allow(func(int32) bool { asked++; return true }))
	require.NoError(t, err)
	require.Equal(t, 40, asked)
}

func TestWarmSamplingAllocatesNothing(t *testing.T) {
	logits := randomLogits(rand.New(rand.NewPCG(1, 1)), 5000)
	for _, o := range []Options{
		{RepeatPenalty: 1.1, RepeatLastN: 64},
		{Temperature: 0.8, TopK: 40, TopP: 0.9, MinP: 0.01, TypicalP: 0.9, RepeatPenalty: 1.1, RepeatLastN: 64},
		{Temperature: 0.8, TopP: 0.9, TypicalP: 0.9},
		{Temperature: 0.8, TopK: 40, Bias: []Bias{{3, -1}, {9, 2}}},
	} {
		s, err := New(o)
		require.NoError(t, err)
		next := int32(0)
		step := func() {
			id, err := s.Sample(logits, allow(allowAll))
			if err != nil {
				panic(err)
			}
			s.Accept(id)
			s.Accept(next % 5000)
			next += 7
		}
		for range 200 {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(200, step), "%+v", o)
	}
}

func allowAll(int32) bool { return true }

func FuzzSampleDrawsAllowedTokenOrFails(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 0, 64}, float32(0.8), float32(0.9), float32(0.05), float32(0.7), float32(1.1), 40, 64, uint64(1))
	f.Add([]byte{0, 0, 192, 127}, float32(0), float32(0), float32(0), float32(0), float32(0), 0, 0, uint64(0))
	f.Add([]byte{0, 0, 128, 127, 0, 0, 128, 255}, float32(1e-45), float32(1e-45), float32(3e38), float32(1e-45), float32(3e38), 1, -1, uint64(9))
	f.Fuzz(func(t *testing.T, raw []byte, temperature, topP, minP, typicalP, repeat float32, topK, lastN int, seed uint64) {
		logits := make([]float32, len(raw)/4)
		for i := range logits {
			logits[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		s, err := New(Options{
			Temperature: temperature, TopP: topP, MinP: minP, TypicalP: typicalP, RepeatPenalty: repeat,
			FrequencyPenalty: minP, PresencePenalty: -topP, TopK: topK, RepeatLastN: lastN, Seed: seed,
		})
		if err != nil {
			require.ErrorIs(t, err, ErrOptions)
			return
		}
		odd := allow(func(t int32) bool { return t%2 == 0 })
		for i := range 3 {
			s.Accept(int32(i))
			id, err := s.Sample(logits, odd)
			if err != nil {
				continue
			}
			require.Zero(t, id%2)
			require.Greater(t, logits[id], float32(math.Inf(-1)))
			s.Accept(id)
		}
	})
}
