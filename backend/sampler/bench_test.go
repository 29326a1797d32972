package sampler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkSample(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 152064)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"greedy", Options{}},
		{"ollama", Options{Temperature: 0.8, TopK: 40, TopP: 0.9, RepeatPenalty: 1.1, RepeatLastN: 64}},
		{"top-p only", Options{Temperature: 0.8, TopP: 0.9}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			s, err := New(c.o)
			require.NoError(b, err)
			for b.Loop() {
				_, _ = s.Sample(logits, nil)
			}
		})
	}
}

func ExampleSampler_Sample() {
	s, err := New(Options{RepeatPenalty: 2, RepeatLastN: 64})
	if err != nil {
		panic(err)
	}
	for range 3 {
		token, err := s.Sample([]float32{1, 5, 4}, nil)
		if err != nil {
			panic(err)
		}
		s.Accept(token)
		fmt.Print(token, " ")
	}
	// Output: 1 2 1
}
