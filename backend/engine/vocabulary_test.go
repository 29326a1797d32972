package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATokenizerFitsItsModel(t *testing.T) {
	require.NoError(t, checkVocabulary(512, 512))
	require.NoError(t, checkVocabulary(262144, 262208), "embeddings are padded")
	require.NoError(t, checkVocabulary(262145, 262144), "Gemma 3's token for images")
	require.ErrorIs(t, checkVocabulary(151936, 49152), ErrOptions)
}
