package testfile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend/engine/enginetest/testfile"
	"github.com/sdnpu/sdnpu/internal/recorded"
)

func TestTheRepositorysModelIsFound(t *testing.T) {
	m, tok := testfile.Open(t, recorded.File(t, "f32"))
	require.Equal(t, m.Config().Vocab, tok.VocabSize())
}
