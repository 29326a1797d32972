package timeline

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRead checks that every accepted record can be drawn, written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema":"x"}`))
	f.Add([]byte(`{"source":"simulated","tasks":[{"lane":"NPU","start_ms":0,"end_ms":5}]}`))
	f.Add([]byte(`{"timelines":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(bytes.NewReader(data))
		if err != nil {
			require.ErrorIs(t, err, ErrRecord)
			return
		}
		var out bytes.Buffer
		require.NoError(t, r.Write(&out))
		_, err = Read(&out)
		require.NoError(t, err)
		require.NoError(t, WritePage(io.Discard, r))
		require.NoError(t, WriteTrace(io.Discard, r))
	})
}
