package headpipe

import "math/rand/v2"

// launchMs is the time of one launch of 1, 2, 3 or 4 heads, in milliseconds. The paper measured
// 1, 2 and 4 heads on a Xiaomi 14, for 128 queries and 2048 keys of 64 elements.
var launchMs = [...]float64{2, 3, 3.5, 4}

// Random returns a layer of the given number of heads in groups of one to four. The times of
// top-k are 0.2 to 0.8 ms, and those of sparse attention 0.3 to 3 ms.
func Random(rng *rand.Rand, heads int) *Problem {
	p := &Problem{}
	for heads > 0 {
		n := 1 + rng.IntN(min(heads, len(launchMs)))
		g := Group{Estimate: launchMs[n-1]}
		for range n {
			g.Heads = append(g.Heads, Head{TopK: 0.2 + 0.6*rng.Float64(), Sparse: 0.3 + 2.7*rng.Float64()})
		}
		p.Groups, heads = append(p.Groups, g), heads-n
	}
	return p
}

// Excess holds the makespans of an order's source, divided by the least makespan.
type Excess struct {
	Name        string
	Mean, Worst float64
}

// Compare plans `sets` random layers of one to seven heads, and compares each source of orders
// with Exhaustive.
func Compare(rng *rand.Rand, sets int, oneCore bool) []Excess {
	sources := []struct {
		name  string
		order func(*Problem) Order
	}{
		{"sequential", (*Problem).Sequential},
		{"published", (*Problem).Published},
		{"johnson", (*Problem).Johnson},
		{"moved", (*Problem).moved},
		{"plan", (*Problem).Plan},
	}
	all := make([]Excess, len(sources))
	for range sets {
		p := Random(rng, 1+rng.IntN(7))
		p.OneCore = oneCore
		least := p.Time(p.Exhaustive())
		for i, s := range sources {
			ratio := p.Time(s.order(p)) / least
			all[i].Name = s.name
			all[i].Mean += ratio / float64(sets)
			all[i].Worst = max(all[i].Worst, ratio)
		}
	}
	return all
}
