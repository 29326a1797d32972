package heads

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrRatios is returned for errors of heads or a mean share from which no shares can be computed.
var ErrRatios = errors.New("no shares of heads")

// Ratios returns the share of keys that each head keeps, indexed (layer, head): the shares with the given
// mean that have the least sum of errors. [Model.Errors] measures the errors. Between measured shares, an
// error is that of the lower convex hull of the measured points and of the point (1, 0): a head that keeps
// all keys has no error. No share is below Shares[0], or below the mean if that is less.
func Ratios(measured [][][]float64, mean float64) (ratios [][]float64, err error) {
	type gain struct {
		layer, head  int
		width, slope float64 // the head loses slope less error for each unit of share, up to width
	}
	var gains []gain
	n := 0
	for layer, heads := range measured {
		list := make([]float64, len(heads))
		for head, e := range heads {
			if err := checkErrors(e); err != nil {
				return nil, fmt.Errorf("heads: layer %d, head %d: %w", layer, head, err)
			}
			list[head], n = min(mean, Shares[0]), n+1
			shares, e := append(slices.Clone(Shares), 1), append(slices.Clone(e), 0)
			for at := 0; at < len(shares)-1; { // walk along the lower convex hull, so that no later step gains more
				best, to := math.Inf(-1), 0
				for next := at + 1; next < len(shares); next++ {
					if slope := (e[at] - e[next]) / (shares[next] - shares[at]); slope >= best {
						best, to = slope, next
					}
				}
				gains = append(gains, gain{layer, head, shares[to] - shares[at], best})
				at = to
			}
		}
		ratios = append(ratios, list)
	}
	if n == 0 || !(mean > 0 && mean <= 1) {
		return nil, fmt.Errorf("heads: %w: %d heads, mean %v: want a mean above 0 and at most 1", ErrRatios, n, mean)
	}
	slices.SortStableFunc(gains, func(a, b gain) int { return cmp.Compare(b.slope, a.slope) })
	left := (mean - min(mean, Shares[0])) * float64(n)
	for _, g := range gains {
		width := min(left, g.width)
		ratios[g.layer][g.head] = min(1, ratios[g.layer][g.head]+width)
		left -= width
	}
	return ratios, nil
}

// checkErrors reports whether there is an error for each share.
func checkErrors(list []float64) error {
	if len(list) != len(Shares) {
		return fmt.Errorf("%w: %d errors, want %d", ErrRatios, len(list), len(Shares))
	}
	for _, e := range list {
		if !(e >= 0) || math.IsInf(e, 0) {
			return fmt.Errorf("%w: error %v: want a finite number of at least 0", ErrRatios, e)
		}
	}
	return nil
}
