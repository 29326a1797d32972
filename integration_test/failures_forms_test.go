package integration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// editCalibration makes the scenario use the recipe w8a8-shadow, lets it calibrate the model and
// changes the stored calibration with the function `edit`.
func editCalibration(edit func(t *testing.T, file map[string]any)) func(t *testing.T, d *scenario) {
	return func(t *testing.T, d *scenario) {
		d.env = []string{"SDNPU_RECIPE=w8a8-shadow"}
		got := d.run(t)
		require.Zero(t, got.code, got.stderr)
		files, err := filepath.Glob(filepath.Join(d.cache, "ranges", "*.json"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		content, err := os.ReadFile(files[0])
		require.NoError(t, err)
		var file map[string]any
		require.NoError(t, json.Unmarshal(content, &file))
		edit(t, file)
		content, err = json.Marshal(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(files[0], content, 0o600))
	}
}

// form returns the form of a projection in a stored calibration.
func form(t *testing.T, file map[string]any, projection string) map[string]any {
	t.Helper()
	forms, _ := file["shadows"].(map[string]any)
	f, ok := forms[projection].(map[string]any)
	require.True(t, ok, projection)
	return f
}

// badForms lists calibrations with which the recipe w8a8-shadow cannot run.
var badForms = []failureCase{
	{
		name: "calibration: forms missing", says: []string{"the form of the projection layer0_q is missing", "calibrate the model again"},
		make: editCalibration(func(t *testing.T, file map[string]any) { delete(file, "shadows") }),
	},
	{
		name: "calibration: forms of a wider model", says: []string{"projection layer0_up", "hot channel 5000", "calibrate the model again"},
		make: editCalibration(func(t *testing.T, file map[string]any) { form(t, file, "layer0_up")["hot"] = []int{5000} }),
	},
	{
		name: "calibration: range without zero", says: []string{"projection layer0_up", "Low:1", "calibrate the model again"},
		make: editCalibration(func(t *testing.T, file map[string]any) {
			form(t, file, "layer0_up")["clip"] = map[string]any{"low": 1, "high": 2}
		}),
	},
}

// TestShadowRecipeCalibratesByItself runs the recipe w8a8-shadow without a stored calibration, and
// with one that belongs to another model. Both runs calibrate the model and give the same text.
func TestShadowRecipeCalibratesByItself(t *testing.T) {
	d := newScenario(t)
	var first outcome
	editCalibration(func(t *testing.T, file map[string]any) {
		again := d.run(t)
		require.Zero(t, again.code, again.stderr)
		require.NotContains(t, again.stderr, "calibrating activations", "the stored calibration is used")
		first = again
		file["digest"], file["model"] = "0123456789abcdef", "another model"
	})(t, d)
	got := d.run(t)
	require.Zero(t, got.code, got.stderr)
	require.Equal(t, first.stdout, got.stdout)
	require.Contains(t, got.stderr, "belongs to the model another model")
	require.Contains(t, got.stderr, "calibrating activations")
}
