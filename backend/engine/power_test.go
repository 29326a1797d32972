package engine_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/backend"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft"
)

// powered is a device that records the votes that it gets.
type powered struct {
	*device
	votes []backend.Phase
	fails bool
}

func (p *powered) Vote(phase backend.Phase) error {
	p.votes = append(p.votes, phase)
	if p.fails {
		return errors.ErrUnsupported
	}
	return nil
}

func TestEachPhaseVotesForItsClocks(t *testing.T) {
	dev := &powered{device: newDevice()}
	e, _ := start(t, dev, small)
	require.Empty(t, dev.votes, "loading makes no vote")
	repeated := slices.Repeat(begin, 4)
	answer(t, e, engine.Request{Prompt: repeated, MaxTokens: 5})
	require.Equal(t, []backend.Phase{backend.Prefill, backend.Decode, backend.Idle}, dev.votes)
	dev.votes = nil
	answer(t, e, engine.Request{Prompt: begin, MaxTokens: 3})
	require.Equal(t, []backend.Phase{backend.Decode, backend.Idle}, dev.votes)

	drafting := small
	var err error
	drafting.Draft, err = draft.Parse("pld")
	require.NoError(t, err)
	dev = &powered{device: newDevice()}
	e, _ = start(t, dev, drafting)
	answer(t, e, engine.Request{Prompt: repeated, MaxTokens: 60})
	require.Equal(t, backend.Prefill, dev.votes[0])
	require.Contains(t, dev.votes, backend.Verify)
	require.Equal(t, backend.Idle, dev.votes[len(dev.votes)-1])
	for i := range dev.votes[1:] {
		require.NotEqual(t, dev.votes[i], dev.votes[i+1], "no vote is repeated")
	}

	refusing := &powered{device: newDevice(), fails: true}
	e, _ = start(t, refusing, small)
	requireAnswers(t, e)
	require.Len(t, refusing.votes, 1, "a device that rejects a vote gets no other")
}
