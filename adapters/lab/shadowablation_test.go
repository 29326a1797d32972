package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/adapters/lab/shadow"
)

func TestShadowAblationPrintsEachTechnique(t *testing.T) {
	out, err := lab(t, "shadow", "ablation")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ +naive +[0-9]+ ms +[0-9]+ +1\.00 *$`, out)
	require.Regexp(t, `(?m)^ +\+ chunk sharing +[0-9]+ ms +[0-9]+ +1\.[0-9]+ +1\.46 to 5\.09$`, out)
	require.Contains(t, out, "simulated")
	out, err = lab(t, "shadow", "ablation", "--group-slowdown", "4", "--json", "--chunks", "4")
	require.NoError(t, err)
	var a shadow.Ablation
	require.NoError(t, json.Unmarshal([]byte(out), &a))
	require.Equal(t, 4, a.Chunks)
	require.Positive(t, a.LoadMs)
	require.Len(t, a.Steps, 4)
	for args, want := range map[string]string{"--device=phone": "want one of", "--group-slowdown=0": "want a factor of 1..100", "--chunks=0": "0 chunks"} {
		_, err = lab(t, "shadow", "ablation", args)
		require.ErrorContains(t, err, want)
	}
}
