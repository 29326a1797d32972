package arguments

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// deviceLine matches a line that the host reads as a device.
var deviceLine = regexp.MustCompile(`(?m)^\s+\S+: .*\(\d+ MiB, \d+ MiB free\)`)

func TestDiscoveryListsNoDevices(t *testing.T) {
	var list bytes.Buffer
	require.NoError(t, AnswerListDevices(&list))
	require.Equal(t, "Available devices:\n", list.String())
	require.NotRegexp(t, deviceLine, list.String())
	require.Regexp(t, deviceLine, "  HTP0: Qualcomm Hexagon NPU (16384 MiB, 15000 MiB free)", "the test itself")
}

func TestDiscoveryPrintsAtOnceAndThenWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		begin := time.Now()
		require.NoError(t, AnswerDiscover(t.Context(), &out))
		require.Equal(t, discoveryTimeout, time.Since(begin), "then a person has the prompt back")

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- AnswerDiscover(ctx, &out) }()
		synctest.Wait()
		require.Equal(t, 2, strings.Count(out.String(), "system_info:"))
		cancel()
		require.NoError(t, <-ended)
	})
}
