package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/model"
)

func TestFormsAreCountedByRole(t *testing.T) {
	var b strings.Builder
	require.NoError(t, printForms(&b, nil))
	require.Empty(t, b.String())
	require.NoError(t, printForms(&b, map[string]model.Shadow{
		"layer0_up":   {Bits: 8, Error: 1e-4},
		"layer1_up":   {Bits: 8, Hot: []int{3, 5}, Error: 2e-4},
		"layer11_up":  {Bits: 16, Hot: []int{3, 5, 7}, Error: 3e-6},
		"layer2_down": {Bits: 16, Error: 4e-5},
	}))
	require.Equal(t, `projection  8 bits  with shadow  16 bits  hot channels  largest error
down        0       0            1        0             4.0e-05
up          1       1            1        3             2.0e-04
`, b.String())
}

// TestCalibratePrintsForms calibrates the small model for w8a8-shadow, and for a recipe without
// forms.
func TestCalibratePrintsForms(t *testing.T) {
	t.Setenv("SDNPU_CACHE", t.TempDir())
	text := textFile(t, "balls.txt", strings.Repeat("Tom had a red ball. ", 20))
	out, err := sdnpu(t, "calibrate", story, "--text", text, "--recipe", "w8a8-shadow")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^down +[0-9]+ +[0-9]+ +[0-9]+ `, out)
	out, err = sdnpu(t, "calibrate", story, "--text", text, "--recipe", "w8a8-shadow", "--json")
	require.NoError(t, err)
	var got struct{ Shadows map[string]model.Shadow }
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Shadows, 35)
	out, err = sdnpu(t, "calibrate", story, "--text", text)
	require.NoError(t, err)
	require.NotContains(t, out, "with shadow")
}
