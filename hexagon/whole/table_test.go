package whole

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const tableFile = "testdata/models.md"

// row is a line of the table.
type row struct {
	subject subject
	place   place
	version string
	run
	verdict
}

func writeTable(t *testing.T, rows []row) {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Whole models on every library

f16 against the float device in f32. "errors" are rms of the difference over rms of the values: of what
leaves the first and the last block (32 rows), of all logits, of the logits of a draft tree of 8 rows.
"choices" counts equal first choices behind the prompt and each further token, which is always the float
device's; "first other" is the first difference and how much the float device prefers its own choice by
(the largest of all). Bits after save and reload were equal in every row. Finalize, execute (32 rows; one
row) and reload are the time of 2 shared x86-64 cores and say nothing about a phone.

Written by: make test-vendor-full

| model | recipe | library | SoC | build | finalize | reload | 32 rows | 1 row | error first / last block | logits | tree | choices | first other | tree choices |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`)
	for _, r := range rows {
		first := "none"
		if r.first >= 0 {
			first = fmt.Sprintf("%d by %.3f", r.first, r.gap)
		}
		fmt.Fprintf(&b, "| %s | f16 | %s | %d | %s | %s | %s | %s | %s | %.2g / %.2g | %.2g | %.2g | %d of %d | %s | %d of %d |\n",
			r.subject.name, r.place.name, r.place.soc, r.version, short(r.finalize), short(r.reload), short(r.promptPass), short(r.oneStep),
			r.layers[0], r.layers[len(r.layers)-1], r.verdict.logits, r.verdict.tree, r.same, r.all, first, r.treeSame, treeRows)
	}
	b.WriteString("\n## Error of what leaves each block\n\n")
	for _, r := range rows {
		if len(r.layers) < 4 {
			continue
		}
		fmt.Fprintf(&b, "%s, %v:", r.subject.name, r.place)
		for _, e := range r.layers {
			fmt.Fprintf(&b, " %.2g", e)
		}
		b.WriteString("\n\n")
	}
	require.NoError(t, os.WriteFile(tableFile, []byte(strings.TrimRight(b.String(), "\n")+"\n"), 0o644))
}

func short(d time.Duration) string { return fmt.Sprintf("%.3g s", d.Seconds()) }
