package tokenizer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFingerprintsDiffer(t *testing.T) {
	of := func(types []tokenType, texts ...string) [32]byte {
		return (&Tokenizer{vocab: &vocabulary{texts: texts, types: types}}).Fingerprint()
	}
	plain := []tokenType{typeNormal, typeNormal}
	a := of(plain, "ab", "c")
	require.Equal(t, a, of(plain, "ab", "c"))
	require.NotEqual(t, a, of(plain, "a", "bc"))
	require.NotEqual(t, a, of(plain, "c", "ab"))
	require.NotEqual(t, a, of([]tokenType{typeNormal, typeControl}, "ab", "c"))
}
