package sampler

import (
	"cmp"
	"math"
	"slices"
)

// history counts how often each token occurs among the last n accepted tokens.
type history struct {
	n int // n is the number of recent tokens that penalties count; -1 means all tokens
	// window holds the last tokens in a ring buffer of n tokens; window is empty if all tokens
	// count
	window []int32
	next   int     // next is the index of the oldest token, if the ring buffer is full
	counts []count // counts is sorted by token id, in the same order as the logits
}

type count struct {
	id, times int32
}

func byID(c count, id int32) int { return cmp.Compare(c.id, id) }

// add counts a token, and stops counting the oldest token if n tokens are counted
// already. The ring buffer grows with the tokens, because n comes from a request and
// may be absurdly large.
func (h *history) add(token int32) {
	switch {
	case h.n < 0:
	case len(h.window) < h.n:
		h.window = append(h.window, token)
	default:
		h.drop(h.window[h.next])
		h.window[h.next] = token
		h.next = (h.next + 1) % h.n
	}
	i, found := slices.BinarySearchFunc(h.counts, token, byID)
	if !found {
		h.counts = slices.Insert(h.counts, i, count{id: token})
	}
	h.counts[i].times++
}

func (h *history) drop(token int32) {
	i, _ := slices.BinarySearchFunc(h.counts, token, byID)
	if h.counts[i].times--; h.counts[i].times == 0 {
		h.counts = slices.Delete(h.counts, i, i+1)
	}
}

// penalise returns the logit, after penalties, of a token that occurred the given
// number of times. Penalties keep finite logits finite: even the largest penalty makes
// a token the last choice, not an impossible one.
func (o *Options) penalise(logit float32, times int32) float32 {
	if math.IsInf(float64(logit), 0) || logit != logit {
		return logit
	}
	l := float64(logit)
	if r := float64(o.RepeatPenalty); r != 0 {
		if l <= 0 {
			l *= r
		} else {
			l /= r
		}
	}
	l -= float64(times)*float64(o.FrequencyPenalty) + float64(o.PresencePenalty)
	return float32(min(max(l, -math.MaxFloat32), math.MaxFloat32))
}
