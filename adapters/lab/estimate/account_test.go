package estimate

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/hexagon/estimator"
)

var accounted = flag.String("recipes", "w8a16,w8a8,w8a8-shadow", "recipes of TestAccountOfALayer")

var account = flag.String("account", "", "part number of a chip for which TestAccountOfALayer prints the operators of a layer")

// TestAccountOfALayer prints how the time of a layer of 128 rows is divided among the
// compiler's operators, for the recipes w8a16 and w8a8. The test needs the vendor's library
// and the flag -account.
func TestAccountOfALayer(t *testing.T) {
	if *account == "" {
		t.Skip("the flag -account names no chip")
	}
	device, _ := simulator(t, *account)
	l := newLab(t)
	for _, recipe := range strings.Split(*accounted, ",") {
		g, o := l.graph(small, recipe, "", partLayer, 128)
		e, err := estimator.Compiler{Device: device}.Estimate(t.Context(), g, o)
		require.NoError(t, err)
		t.Logf("%s on %s, %s: %.0f µs, read %.1f MB, written %.1f MB, spilled %.1f MB", small, *account, recipe, e.Cycles/e.MHz, float64(e.ReadBytes)/1e6, float64(e.WriteBytes)/1e6, float64(e.SpillBytes)/1e6)
		for _, s := range e.Shares {
			if us := s.Cycles / e.MHz; us >= 1 {
				t.Logf("%7.1f µs (busy %7.1f) %-8s %s", us, s.Busy/e.MHz, s.Unit, s.Operator)
			}
		}
	}
}
