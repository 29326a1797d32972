package outoforder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
	. "github.com/sdnpu/sdnpu/graphswap/outoforder"
)

// TestSchedulesAgainstAllOrders compares the policies with the best of all orders of small
// problems.
func TestSchedulesAgainstAllOrders(t *testing.T) {
	ratios, worst, shortest, n := map[Policy]float64{}, map[Policy]float64{}, 0., 0.
	forEachProblem(t, 1, 25, []shape{{1, 7}, {2, 3}, {2, 5}, {3, 3}, {3, 4}}, func(t *testing.T, p *Problem) {
		best := bestOfAllOrders(p)
		require.GreaterOrEqual(t, best, p.Bound())
		require.GreaterOrEqual(t, p.Shortest().Makespan, best)
		shortest += float64(p.Shortest().Makespan) / float64(best)
		n++
		for _, policy := range Policies() {
			ratio := float64(p.Schedule(policy).Makespan) / float64(best)
			ratios[policy] += ratio
			worst[policy] = max(worst[policy], ratio)
		}
	})
	for _, policy := range Policies() {
		t.Logf("%v: mean %.3f times the best time, at most %.3f", policy, ratios[policy]/n, worst[policy])
	}
	t.Logf("Shortest: mean %.4f times the best time", shortest/n)
	require.Less(t, shortest/n, 1.005)
}

// bestOfAllOrders returns the shortest makespan of all orders in which tasks can be added
// to the ends of the lanes.
func bestOfAllOrders(p *Problem) time.Duration {
	o := &orders{replay: newReplay(p, p.Schedule(InOrder)), end: map[[2]int]time.Duration{}}
	o.best = p.Schedule(InOrder).Makespan
	o.add([2]time.Duration{}, 0)
	return o.best
}

// orders is the state of the search: the tasks added so far, with their ends.
type orders struct {
	*replay
	end  map[[2]int]time.Duration
	best time.Duration
}

func (o *orders) add(free [2]time.Duration, makespan time.Duration) {
	if makespan >= o.best {
		return
	}
	if len(o.end) == len(o.tasks) {
		o.best = makespan
		return
	}
	var left [2]time.Duration // for each lane, the total time of the tasks that the search has not added yet
	for key, t := range o.tasks {
		if _, added := o.end[key]; !added {
			left[o.p.Stages()[key[1]].Lane] += t.End - t.Start
		}
	}
	if free[graphswap.NPU]+left[graphswap.NPU] >= o.best || free[graphswap.CPU]+left[graphswap.CPU] >= o.best {
		return
	}
	for key, t := range o.tasks {
		start, possible := o.earliest(key)
		if !possible {
			continue
		}
		lane := o.p.Stages()[key[1]].Lane
		next := free
		next[lane] = max(start, free[lane]) + t.End - t.Start
		o.end[key] = next[lane]
		o.add(next, max(makespan, next[lane]))
		delete(o.end, key)
	}
}

// earliest returns the time at which the last input of a task ends, which is the earliest
// start of the task. A task cannot be added if it has been added already, or if one of its
// inputs has not.
func (o *orders) earliest(key [2]int) (start time.Duration, possible bool) {
	if _, added := o.end[key]; added {
		return 0, false
	}
	for _, n := range o.needs[key] {
		end, added := o.end[n]
		if !added {
			return 0, false
		}
		start = max(start, end)
	}
	return start, true
}
