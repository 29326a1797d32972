package forms

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sdnpu/sdnpu/hexagon/qnn"
)

// full says whether the long sweep was asked for: the documents' own large
// shapes, every chip, more seeds.
var full = os.Getenv("SDNPU_FULL") != ""

// form is one row of the table: an operator with its types, shape and chip.
type form struct {
	// row is the operator, types its inputs' words of [formats], shape a name
	// for the sizes.
	row, types, shape string
	soc               uint32
	// want is what a library answers.
	want Outcome
	// limit is the error allowed.
	limit limit
	// unvalidated forms leave out the vendor's validation.
	unvalidated bool
	// quirk is where the vendor's library does otherwise.
	quirk *quirk
	build func(g *Graph)
}

// quirk is a known difference of the vendor's library, on purpose: the emulator
// does better or is stricter.
type quirk struct {
	reason string
	// want is the outcome of the vendor's library; nil leaves outcome and error
	// unjudged.
	want *Outcome
}

// unlike sets a quirk whose outcome is known.
func (f *form) unlike(reason, stage string, code uint32) *form {
	f.quirk = &quirk{reason, &Outcome{stage, code}}
	return f
}

// unjudged sets a quirk whose outcome is not.
func (f *form) unjudged(reason string) *form {
	f.quirk = &quirk{reason: reason}
	return f
}

// limit is the error that is stated for a form: relative rms for floats, output
// steps for quantized numbers. Whole numbers are equal.
type limit struct {
	relrms, lsb float64
	// vendor is how many times the stated error the vendor's library was seen
	// to make at shapes that nobody stated it for; 0 means 1.
	vendor float64
}

const (
	// margin is how far beyond a stated figure, which belongs to one shape and
	// one draw, another draw may go.
	margin = 1.5
	// exactLSB is what is left to whoever computes exactly and rounds once per
	// node, and exactF32 to whoever computes in float32 throughout.
	exactLSB = 0.6
	exactF32 = 2e-6
	// coarseLSB is what the vendor's library may be further off for the oldest
	// chip, whose products of 16 bits are coarser.
	coarseLSB = 30
)

// of is the limit for a runner. What is not the vendor's computes quantized forms
// exactly enough to round right, and float32 in float32, whatever is stated.
func (l limit) of(runner string, g *Graph) (relrms, lsb float64) {
	if runner != "vendor" {
		relrms, lsb = l.relrms*margin, min(l.lsb*margin, exactLSB*float64(len(g.Nodes)))
		if !slices.ContainsFunc(g.Tensors, func(t *Tensor) bool { return t.Type != qnn.Float32 }) {
			relrms = min(relrms, exactF32)
		}
		return relrms, lsb
	}
	factor := margin * max(l.vendor, 1)
	relrms, lsb = l.relrms*factor, l.lsb*factor
	if g.SoC == oldest && lsb > 0 {
		lsb += coarseLSB
	}
	return relrms, lsb
}

// The chips of the document: SM8650, SM8750, SM8550, and the library's own
// choice, which is the oldest (v68).
const (
	sm8650 uint32 = 57
	sm8750 uint32 = 69
	sm8550 uint32 = 43
	oldest uint32 = 0
)

func (f *form) name() string {
	chip := fmt.Sprintf("soc%d", f.soc)
	if f.soc == oldest {
		chip = "v68"
	}
	return strings.Join([]string{f.row, f.types, f.shape, chip}, "/")
}

// graph builds the form's graph; equal names draw equal numbers.
func (f *form) graph() *Graph {
	h := fnv.New64a()
	_, _ = h.Write([]byte(f.name()))
	g := &Graph{
		Name: f.name(), SoC: f.soc, Unvalidated: f.unvalidated,
		rng: rand.New(rand.NewPCG(h.Sum64(), 1)), refused: f.want != Outcome{},
	}
	f.build(g)
	return g
}

// table collects forms.
type table struct{ forms []*form }

// add appends a form for SM8650; the result may be adjusted.
func (t *table) add(row, types, shape string, l limit, build func(g *Graph)) *form {
	f := &form{row: row, types: types, shape: shape, soc: sm8650, limit: l, build: build}
	t.forms = append(t.forms, f)
	return f
}

// on moves a form to another chip.
func (f *form) on(soc uint32) *form {
	f.soc = soc
	return f
}

// refused sets the call that ends the form.
func (f *form) refused(stage string, code uint32) *form {
	f.want = Outcome{stage, code}
	return f
}

// onEveryChip are the forms that the everyday run repeats on the other chips:
// those where the document tells chips apart.
var onEveryChip = regexp.MustCompile(`^(FullyConnected|MatMul|Conv2d 1x1)/(f16·f16|f32·f32|u8·s8c|u16·s8c)/8x64x96/|` +
	`^(RmsNorm|Softmax|ElementWiseAdd)/(f16|f32|u16)(·(f16|f32|u16))?/1x|^block/`)

// everywhere is how many elements a form that the long sweep repeats on the other
// chips may have, as its shape tells: what chips do otherwise shows in small ones.
const everywhere = 50_000

// volume is the product of the numbers in a shape.
func volume(shape string) int {
	n := 1
	for _, digits := range number.FindAllString(shape, -1) {
		if d, err := strconv.Atoi(digits); err == nil {
			n *= max(d, 1)
		}
	}
	return n
}

var number = regexp.MustCompile(`\d+`)

// elsewhere repeats the last n forms on the other chips.
func (t *table) elsewhere(n int) {
	for _, f := range t.forms[len(t.forms)-n:] {
		if full && volume(f.shape) > everywhere || !full && !onEveryChip.MatchString(f.name()) {
			continue
		}
		for _, soc := range []uint32{oldest, sm8750, sm8550} {
			other := *f
			other.soc = soc
			if soc == oldest && f.types == "u16·u16z" {
				other.refused("addNode", 6005) // this chip has no product of 16 by 16 bits
			}
			t.forms = append(t.forms, &other)
		}
	}
}

// allForms is the table.
func allForms() []*form {
	t := &table{}
	t.linear()
	t.biases()
	t.attention()
	t.norms()
	t.elementwise()
	t.masks()
	t.moves()
	t.otherEncodings()
	t.picks()
	t.conversions()
	t.random()
	t.blocks()
	t.bad()
	t.lives()
	return t.forms
}

// sizes are the dimensions of one case with a name.
func sizes(dims ...int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", "x"), "[]")
}
