package spec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// acceptance decides how many of the drafts of the nth pass of a request are right.
type acceptance func(rng *rand.Rand, request, n, drafts int) int

// acceptances lists rules that say how many drafts of a pass are right: all, none, a random
// number, all in some of the requests, or first all and later none, which misleads a guard
// that counts earlier passes.
var acceptances = map[string]acceptance{
	"never right":  func(*rand.Rand, int, int, int) int { return 0 },
	"always right": func(_ *rand.Rand, _, _, drafts int) int { return drafts },
	"right until trust has grown, then wrong": func(_ *rand.Rand, _, n, drafts int) int {
		if n < 40 {
			return drafts
		}
		return 0
	},
	"right in every third request": func(_ *rand.Rand, request, _, drafts int) int {
		if request%3 == 0 {
			return drafts
		}
		return 0
	},
	"right for many requests, then wrong": func(_ *rand.Rand, request, _, drafts int) int {
		if request < 30 {
			return drafts
		}
		return 0
	},
	"random": func(rng *rand.Rand, _, _, drafts int) int { return rng.IntN(drafts + 1) },
	"rarely right": func(rng *rand.Rand, _, _, drafts int) int {
		if rng.IntN(20) > 0 {
			return 0
		}
		return drafts
	},
}

// TestGuardBoundsTheLoss draws devices and answers, and lets drafts take the widest pass
// that the guard allows. The oracle adds up the times of all passes, with drafts and
// without, and does not fade them; after each pass, the two sums must keep the guard's
// limits.
func TestGuardBoundsTheLoss(t *testing.T) {
	for name, accept := range acceptances {
		t.Run(name, func(t *testing.T) {
			wide, gained := 0, false
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 3))
				one := 0.02 + rng.Float64()
				costs := []float64{one, one * (1 + 0.2*rng.Float64()), one * (1.2 + 3*rng.Float64())}
				widths := []int{1, 8, 32}
				var guard Guard
				// took and plain are sums of times over all requests; unlike the guard's
				// sums, they count old passes as much as new ones
				var took, plain float64
				for request := range 60 {
					var account Account
					prefill := one * 4 * rng.Float64()
					guard.Add(prefill, prefill)
					account.Add(prefill, prefill)
					took, plain = took+prefill, plain+prefill
					own, ownPlain := prefill, prefill
					for pass := range 1 + rng.IntN(120) {
						choice := 0
						for w := range widths {
							if costs[w]-one <= guard.Room(&account, 1) {
								choice = w
							}
						}
						tokens := 1
						if drafts := widths[choice] - 1; drafts > 0 {
							wide++
							tokens += min(accept(rng, request, pass, drafts), drafts)
						}
						saved := float64(tokens) * one
						guard.Add(saved, costs[choice])
						account.Add(saved, costs[choice])
						took, plain = took+costs[choice], plain+saved
						own, ownPlain = own+costs[choice], ownPlain+saved
						if took > plain*(1+TotalLimit)*(1+1e-9) || own > ownPlain*(1+RequestLimit)*(1+1e-9) || math.Abs(own-ownPlain-account.Loss) > 1e-6 {
							t.Fatalf("seed %d, request %d, pass %d: all took %g instead of %g, the request %g instead of %g with a loss of %g",
								seed, request, pass, took, plain, own, ownPlain, account.Loss)
						}
					}
				}
				gained = gained || took < 0.8*plain
			}
			require.Positive(t, wide, "the guard allows drafts")
			if name == "always right" || name == "random" {
				require.True(t, gained, "the guard lets drafts save time")
			}
		})
	}
}

// TestGuardAllowsNothingInAdvance: a new guard and a new request may lose nothing, and
// savings of earlier requests do not raise what one request may lose.
func TestGuardAllowsNothingInAdvance(t *testing.T) {
	var g Guard
	var first Account
	require.Zero(t, g.Room(&first, 1))
	for range 1000 {
		g.Add(10, 1)
	}
	require.Zero(t, g.Room(&first, 1), "the request has spent no time")
	first.Add(100, 100)
	require.InDelta(t, 100*RequestLimit, g.Room(&first, 1), 1e-9)
	first.Add(0, 50)
	require.Negative(t, g.Room(&first, 1), "a pass took longer than it was expected to")
}

// TestGuardForgetsSavings: however much time earlier passes saved, later passes may lose at
// most the share TotalLimit of their own time without drafts, plus the share `saved` of the
// time that about the last thousand passes take without drafts.
func TestGuardForgetsSavings(t *testing.T) {
	var g Guard
	for range 5000 {
		g.Add(10, 1)
	}
	lost := 0.0
	for range 5000 {
		request := Account{Plain: 1e9} // with so much time without drafts, the request's loss stays below its RequestLimit
		took := 1.0
		if g.Room(&request, 1) >= 0.2 {
			took = 1.2
		}
		g.Add(1, took)
		lost += took - 1
	}
	require.Less(t, lost, 5000*TotalLimit+saved*10*1000, "the last thousand passes count")
	require.Greater(t, lost, 5000*TotalLimit/2)
}

func ExampleGuard() {
	var g Guard
	var request Account
	for range 100 { // 100 passes without drafts take 10 ms each
		g.Add(10, 10)
		request.Add(10, 10)
	}
	fmt.Printf("%.1f ms\n", g.Room(&request, 1))
	// Output: 4.8 ms
}
