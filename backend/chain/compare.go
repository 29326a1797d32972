package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Comparison is what became of texts on two chains: the reference and the one
// that is tested.
type Comparison struct {
	// SQNR has, for each layer, the decibels by which the reference's hidden
	// states behind it stand above the difference; +Inf where there is none.
	SQNR []float64
	// Positions is the number of places whose next tokens were compared. The
	// tested chain's likeliest is the reference's at Same of them; at Tied others
	// it is as likely there as the reference's own.
	Positions, Same, Tied int
	// Divergence is the mean of Kullback and Leibler's, reference to tested, in
	// nats.
	Divergence float64
	// Reference and Tested are the perplexities of the texts. Uncertainty is the
	// standard error of the logarithm of their ratio, which is the mean of the
	// positions' differences in loss; NaN for a single position.
	Reference, Tested, Uncertainty float64
	// Sizes are those of the tested chain, Spent is the processors' time for each
	// of the texts' tokens there.
	Sizes Sizes
	Spent time.Duration
}

// Agreement is the share of positions whose likeliest token is the reference's,
// or as likely.
func (c *Comparison) Agreement() float64 { return float64(c.Same+c.Tied) / float64(c.Positions) }

// Compare sends the texts of two fresh chains, which must be the same, through
// their models layer by layer. progress, when not nil, is told how many of the
// model's parts are done.
func Compare(ctx context.Context, reference, tested *Chain, progress func(done, total int)) (*Comparison, error) {
	if !slices.EqualFunc(reference.texts, tested.texts, slices.Equal[[]int32]) {
		return nil, fmt.Errorf("chain: compare: %w: the chains have different texts", ErrText)
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	layers := reference.model.Config().Layers
	c := &Comparison{}
	for i := range layers {
		progress(i, layers+1)
		if err := errors.Join(reference.Layer(ctx, i, nil), tested.Layer(ctx, i, nil)); err != nil {
			return nil, err
		}
		var signal, noise float64
		for text := range reference.texts {
			want, got := reference.Hidden(text), tested.Hidden(text)
			for j, v := range want {
				d := float64(got[j]) - float64(v)
				signal, noise = signal+float64(v)*float64(v), noise+d*d
			}
		}
		c.SQNR = append(c.SQNR, 10*math.Log10(signal/noise))
	}
	progress(layers, layers+1)
	if err := c.heads(ctx, reference, tested); err != nil {
		return nil, err
	}
	progress(layers+1, layers+1)
	tokens := 0
	for _, text := range tested.texts {
		tokens += len(text)
	}
	c.Sizes, c.Spent = tested.Sizes, tested.Spent/time.Duration(tokens)
	return c, nil
}

// heads compares what the heads say.
func (c *Comparison) heads(ctx context.Context, reference, tested *Chain) (err error) {
	var heads [2]*Head
	for i, chain := range []*Chain{reference, tested} {
		if heads[i], err = chain.Head(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, heads[i].Close()) }()
	}
	if heads[0].Rows() != heads[1].Rows() {
		return fmt.Errorf("chain: compare: %d and %d rows", heads[0].Rows(), heads[1].Rows())
	}
	var loss [2]float64
	var squares float64 // of the differences in loss
	for i, text := range reference.texts {
		for at := 0; at < len(text)-1; at += heads[0].Rows() {
			want, err := heads[0].Logits(ctx, i, at, nil)
			if err != nil {
				return err
			}
			got, err := heads[1].Logits(ctx, i, at, nil)
			if err != nil {
				return err
			}
			for j := range want {
				if at+j+1 == len(text) {
					break
				}
				l := c.add(want[j], got[j], text[at+j+1])
				loss[0], loss[1] = loss[0]+l[0], loss[1]+l[1]
				squares += (l[1] - l[0]) * (l[1] - l[0])
			}
		}
	}
	if c.Positions == 0 {
		return fmt.Errorf("chain: compare: %w: no text has two tokens", ErrText)
	}
	n := float64(c.Positions)
	c.Divergence /= n
	c.Reference, c.Tested = math.Exp(loss[0]/n), math.Exp(loss[1]/n)
	mean := (loss[1] - loss[0]) / n
	c.Uncertainty = math.Sqrt(max(0, squares/n-mean*mean) / (n - 1))
	return nil
}

// add compares the logits of one position and returns the losses of the token
// that follows.
func (c *Comparison) add(want, got []float32, next int32) (loss [2]float64) {
	c.Positions++
	first := [2]int{largest(want), largest(got)}
	switch {
	case first[0] == first[1]:
		c.Same++
	case got[first[0]] == got[first[1]]:
		c.Tied++
	}
	sum := [2]float64{logSum(want, want[first[0]]), logSum(got, got[first[1]])}
	for i, v := range want {
		p := float64(v) - sum[0]
		c.Divergence += math.Exp(p) * (p - (float64(got[i]) - sum[1]))
	}
	return [2]float64{sum[0] - float64(want[next]), sum[1] - float64(got[next])}
}

// largest is the lowest index of the largest element.
func largest(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// logSum is the logarithm of the sum of exponentials; top is the largest.
func logSum(x []float32, top float32) float64 {
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - float64(top))
	}
	return float64(top) + math.Log(sum)
}
