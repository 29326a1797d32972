package lanes

import "github.com/sdnpu/sdnpu/backend/sparse"

// headScales holds the scales of the queries and keys of a key head.
type headScales struct{ queries, keys float32 }

// arrange chooses the launches: which key heads are estimated together, and in which bucket.
func (h *headPass) arrange() {
	buckets := make([]int, h.KeyHeads)
	for k := range buckets {
		buckets[k] = mean
	}
	switch scales := h.program.device.attention.Scales; scales {
	case ScalesOfRows, "":
	default:
		h.learnScales()
		if h.Buckets > 1 && scales != ScalesOfLayers {
			m := h.meanScales()
			for k := range buckets {
				s := h.scalesOf(k)
				buckets[k] = nearestBucket(s.queries/m.queries, s.keys/m.keys, scales == ScalesOfBucketsLog)
			}
		}
	}
	h.order, h.place = h.order[:0], make([]int, h.KeyHeads)
	for bucket := range bucketScales {
		first := len(h.order)
		for k, b := range buckets {
			if b == bucket {
				h.place[k] = len(h.order)
				h.order = append(h.order, k)
			}
		}
		h.launches = append(h.launches, split(first, len(h.order)-first, bucket)...)
	}
}

// split divides key heads in a row into the largest launches.
func split(first, heads, bucket int) (list []launch) {
	for heads > 0 {
		n := launchHeads[0]
		for _, size := range launchHeads {
			if size <= heads {
				n = size
			}
		}
		list = append(list, launch{first: first, heads: n, bucket: bucket})
		first, heads = first+n, heads-n
	}
	return list
}

// scalesOf returns the scales that use all integers for the queries and keys of a key head.
func (h *headPass) scalesOf(k int) headScales {
	f, n := &h.pilot.floats, len(h.view.slots)
	size := h.Groups * h.Rows * h.Dim
	return headScales{largest(f.queries[k*size:(k+1)*size]) / 127, largest(f.keys[k*n*h.Dim:(k+1)*n*h.Dim]) / 127}
}

// learnScales adds the scales of this pass to the mean scales of the layer.
func (h *headPass) learnScales() {
	m := h.pilot.means[h.Layer]
	if m == nil {
		m = new(meanScales)
		h.pilot.means[h.Layer] = m
	}
	for k := range h.KeyHeads {
		s := h.scalesOf(k)
		m.queries, m.keys, m.count = m.queries+float64(s.queries), m.keys+float64(s.keys), m.count+1
	}
}

// meanScales returns the mean scales of the layer in all passes so far.
func (h *headPass) meanScales() headScales {
	m := h.pilot.means[h.Layer]
	return headScales{float32(m.queries / m.count), float32(m.keys / m.count)}
}

// round writes the queries and keys of a launch in 8 bits.
func (h *headPass) round(l launch) {
	p, n := h.pilot, len(h.view.slots)
	each(l.heads, func(i int) {
		place := l.first + i
		k := h.order[place]
		queries := p.floats.queries[k*h.Groups*h.Rows*h.Dim:][:h.Groups*h.Rows*h.Dim]
		keys := p.floats.keys[k*n*h.Dim:][:n*h.Dim]
		q8 := p.queries.Bytes()[place*len(queries):][:len(queries)]
		k8 := p.keys.Bytes()[place*h.slots()*h.Dim:][:h.slots()*h.Dim]
		if s := h.program.device.attention.Scales; s != ScalesOfRows && s != "" {
			m, b := h.meanScales(), bucketScales[l.bucket]
			h.units[k] = units{queries: m.queries * b[0], keys: m.keys * b[1]}
			sparse.Round(q8, queries, h.units[k].queries)
			sparse.Round(k8, keys, h.units[k].keys)
			return
		}
		rounded := sparse.RoundKeys(k8, keys, h.Dim)
		u := units{keys: rounded.Scale, centre: rounded.Centre}
		size := h.Rows * h.Dim
		for group := range h.Groups {
			own := queries[group*size:][:size]
			spread := rounded.Spread(own[:h.view.used()*h.Dim], h.Dim, h.share(k*h.Groups+group))
			for at := 0; at < size; at += h.Dim {
				u.rows = append(u.rows, sparse.RoundQuery(q8[group*size+at:], own[at:at+h.Dim], spread))
			}
		}
		h.units[k] = u
	})
}

// share returns the share of keys that query head q selects.
func (h *headPass) share(q int) float64 {
	n := h.view.most
	return float64(h.program.device.attention.Rule.Keep(n, h.ratios[q])) / float64(n)
}
