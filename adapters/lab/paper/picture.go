package paper

import (
	"fmt"
	"html"
	"strings"
)

// The sizes of a picture, in pixels.
const (
	pictureWidth, labelWidth, barWidth = 900, 380, 400
	rowHeight, barHeight, headHeight   = 34, 11, 56
)

// SVG draws the table: for each row a bar for the published value and one for ours. The
// bars of one unit share one scale.
func (t *Table) SVG() string {
	largest := make(map[string]float64)
	for _, r := range t.Rows {
		largest[r.Unit] = max(largest[r.Unit], r.Published.High, r.Ours.High)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", pictureWidth, headHeight+rowHeight*len(t.Rows)+8)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="8" y="20" font-size="14">%s: %s</text>`+"\n", html.EscapeString(t.Item), html.EscapeString(t.Title))
	fmt.Fprintf(&b, `<rect x="8" y="30" width="12" height="12" fill="%s"/><text x="26" y="40">published</text>`, colours[0])
	fmt.Fprintf(&b, `<rect x="108" y="30" width="12" height="12" fill="%s"/><text x="126" y="40">ours</text>`+"\n", colours[1])
	for i, r := range t.Rows {
		top := headHeight + i*rowHeight
		fmt.Fprintf(&b, `<text x="8" y="%d">%s</text>`+"\n", top+16, html.EscapeString(shorten(r.What, 58)))
		for k, v := range []Range{r.Published, r.Ours} {
			if !v.Known || largest[r.Unit] <= 0 {
				continue
			}
			y := top + 2 + k*(barHeight+2)
			x := func(value float64) float64 { return max(0, value) / largest[r.Unit] * barWidth }
			start := 0.0
			if v.Low != v.High {
				start = x(v.Low)
			}
			fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, labelWidth+start, y, max(1, x(v.High)-start), barHeight, colours[k])
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" font-size="10">%s %s</text>`+"\n", labelWidth+x(v.High)+4, y+9, v.text(2), html.EscapeString(r.Unit))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// colours holds the colours of the published values and of ours.
var colours = [2]string{"#9aa5b1", "#2b6cb0"}

// shorten cuts a label that would run into the bars.
func shorten(text string, longest int) string {
	if letters := []rune(text); len(letters) > longest {
		return string(letters[:longest-1]) + "…"
	}
	return text
}
