package needs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// probe stands for a test and records whether Missing fails or skips it.
type probe struct {
	testing.TB
	failed, skipped string
}

func (p *probe) Helper()                           {}
func (p *probe) Fatalf(format string, args ...any) { p.failed = fmt.Sprintf(format, args...) }
func (p *probe) Skipf(format string, args ...any)  { p.skipped = fmt.Sprintf(format, args...) }

func TestOnlyNamedThingsFailATest(t *testing.T) {
	t.Setenv("SDNPU_REQUIRE", "vendor,models")
	var p probe
	Missing(&p, "data", "no %s", "traces")
	require.Equal(t, probe{skipped: "no traces"}, p)

	p = probe{}
	Missing(&p, "models", "no %s", "SmolLM2")
	require.Equal(t, "SDNPU_REQUIRE names models: no SmolLM2", p.failed)

	t.Setenv("SDNPU_REQUIRE", "")
	require.False(t, Required("vendor"))
	require.False(t, Required("model"), "the whole name counts")
}
