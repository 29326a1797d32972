package spec

// maxDepth bounds the contexts of a [Drafter].
const maxDepth = 32

// Drafter draws trees from what several sources know of the text's end.
//
// The probability of a token is a blend of all context lengths, the longest
// first: of what a length leaves over, each shorter one gets its share (PPM;
// Witten and Bell). Sources add their weighted counts within a length, so a
// source that never saw a context costs nothing. A tree is drawn best-first by
// the product of the probabilities on its path, which gives the rows with the
// largest expected number of accepted tokens.
//
// What the sources and lengths are worth is learned from what the model says.
//
// A Drafter allocates nothing once warm. It is not safe for concurrent use.
type Drafter struct {
	// First, when set, tells whether a token may come next at all, and rows that
	// may not are left out. It is not asked about what comes later.
	First func(token int32) bool
	// Weights are the sources' and context lengths'. Use sets those of a source,
	// Learn moves them.
	Weights Weights
	sources []weighted
	queue   []candidate // by falling score, at most as long as rows are free
	bag     bag
	said    [maxDepth + 1]said
	context [maxDepth]int32
	path    [maxDepth]int32
}

// weighted is a source and what it said of the present context.
type weighted struct {
	Source
	found           int
	total, distinct [maxDepth + 1]float32
	first           [maxDepth + 1]int32
}

type candidate struct {
	score         float32
	token, parent int32
}

// NewDrafter returns a drafter without sources; contexts of all lengths have the
// same escape.
func NewDrafter(escape float32) *Drafter {
	d := &Drafter{bag: newBag()}
	for k := range d.Weights.Escapes {
		d.Weights.Escapes[k] = escape
	}
	return d
}

// Use adds a source, of four at most: its counts are multiplied by weight. The
// drafter reads it whenever it proposes.
func (d *Drafter) Use(s Source, weight float32) {
	for k := range levels {
		d.Weights.Sources[len(d.sources)][k] = weight
	}
	d.sources = append(d.sources, weighted{Source: s})
}

// Propose fills an empty tree with up to rows rows that continue text, fewer
// only when no source has anything left to say.
func (d *Drafter) Propose(t *Tree, text []int32, rows int) {
	if rows < 1 {
		return
	}
	d.queue = d.queue[:0]
	end := d.end(text)
	d.expand(end, None, 1, rows)
	for t.Len() < rows && len(d.queue) > 0 {
		best := d.queue[0]
		d.queue = d.queue[:copy(d.queue, d.queue[1:])]
		row := t.Add(best.token, best.parent, best.score)
		if free := rows - t.Len(); free > 0 {
			d.expand(d.tail(t, row, end), row, best.score, free)
		}
	}
}

// end is the end of a text, the newest token first.
func (d *Drafter) end(text []int32) []int32 {
	end := d.context[:min(maxDepth, len(text))]
	for i := range end {
		end[i] = text[len(text)-1-i]
	}
	return end
}

// tail is the end of the text that a row ends, the newest token first.
func (d *Drafter) tail(t *Tree, row int32, end []int32) []int32 {
	n := 0
	for ; row != None && n < maxDepth; row = t.Parents[row] {
		d.path[n] = t.Tokens[row]
		n++
	}
	return d.path[:n+copy(d.path[n:], end)]
}

// expand queues what may follow a row with the given score and context, of
// which the best free ones can be used.
func (d *Drafter) expand(context []int32, parent int32, score float32, free int) {
	longest := d.look(context)
	d.bag.empty()
	worth := d.least(free) / negligible
	for k := longest - 1; k >= 0 && score > worth; k-- {
		score = d.blend(k, score, worth)
	}
	for _, e := range d.bag.entries {
		if parent == None && d.First != nil && !d.First(e.token) {
			continue
		}
		d.push(candidate{score: e.score, token: e.token, parent: parent}, free)
	}
}

// look asks all sources for a context and returns how many lengths some know.
func (d *Drafter) look(context []int32) (longest int) {
	for i := range d.sources {
		s := &d.sources[i]
		s.found = s.Levels(context, s.total[:], s.distinct[:], s.first[:])
		longest = max(longest, s.found)
	}
	return longest
}

// negligible is how much smaller than the least useful score a contribution may
// be before it is left out. Several lengths add up to a score, so it is not 1.
const negligible = 8

// blend gives the successors of the context of k tokens their share of mass and
// returns what is left for shorter contexts. Contributions below worth may be
// left out.
func (d *Drafter) blend(k int, mass, worth float32) float32 {
	var total, distinct float32
	escape := d.Weights.Escapes[level(k)]
	for i := range d.sources {
		if s := &d.sources[i]; k < s.found {
			total += d.Weights.Sources[i][level(k)] * s.total[k]
			distinct += s.distinct[k]
		}
	}
	if total == 0 {
		return mass
	}
	share := mass / (total + escape*distinct)
	for i := range d.sources {
		s := &d.sources[i]
		if k >= s.found || s.total[k] == 0 {
			continue
		}
		weight := d.Weights.Sources[i][level(k)]
		for at, n := s.first[k], 0; at != End && n < maxSuccessors; n++ {
			token, count, next := s.Successor(at)
			gain := share * weight * count
			if gain < worth {
				break
			}
			d.bag.add(token, gain)
			at = next
		}
	}
	return share * escape * distinct
}

// maxSuccessors bounds how many successors of one context are looked at.
const maxSuccessors = 24

// least is the score that a candidate has to beat.
func (d *Drafter) least(free int) float32 {
	if len(d.queue) < free {
		return 0
	}
	return d.queue[free-1].score
}

// push queues a candidate unless free better ones wait already.
func (d *Drafter) push(c candidate, free int) {
	if c.score <= d.least(free) {
		return
	}
	if len(d.queue) >= free {
		d.queue = d.queue[:free-1]
	}
	d.queue = append(d.queue, c)
	i := len(d.queue) - 1
	for ; i > 0 && d.queue[i-1].score < c.score; i-- {
		d.queue[i] = d.queue[i-1]
	}
	d.queue[i] = c
}
