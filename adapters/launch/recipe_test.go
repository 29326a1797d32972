package launch

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/model"
)

// TestFallbackIsForChipsWithFloatsOnly checks for which refused recipes sdnpu tries the recipe
// that multiplies no floats.
func TestFallbackIsForChipsWithFloatsOnly(t *testing.T) {
	unsupported, full := fmt.Errorf("compile: %w", errors.ErrUnsupported), fmt.Errorf("load: %w", backend.ErrNoMemory)
	for _, c := range []struct {
		name         string
		f16, w8, w4  error
		wantFallback bool
	}{
		{"v68 without memory for f16", full, unsupported, unsupported, true},
		{"no memory at all", full, full, full, false},
		{"no floats", unsupported, unsupported, unsupported, false},
		{"only one recipe is refused by the chip", full, unsupported, full, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.wantFallback, needsFallback([]refusal{{recipe: "f16", err: c.f16}, {recipe: "w8", err: c.w8}, {recipe: "w4a16", err: c.w4}}))
		})
	}
	r, err := model.FindRecipe(Fallback)
	require.NoError(t, err)
	require.True(t, r.Shadow)
	require.NotContains(t, Uncalibrated(), Fallback)
}
