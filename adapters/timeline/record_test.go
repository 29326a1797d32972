package timeline

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdnpu/sdnpu/graphswap"
)

func written(t *testing.T, r *Record) string {
	var b bytes.Buffer
	require.NoError(t, r.Write(&b))
	return b.String()
}

func TestRecordsSurviveWriteAndRead(t *testing.T) {
	want := sample()
	got, err := Read(strings.NewReader(written(t, want)))
	require.NoError(t, err)
	want.Schema = schema
	require.Equal(t, want, got)
}

func TestASingleTimelineIsARecord(t *testing.T) {
	line := sample().Timelines[1]
	text, err := json.Marshal(line)
	require.NoError(t, err)
	got, err := Read(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, []*graphswap.Timeline{line}, got.Timelines)
}

func TestOtherFilesAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		text, says string
	}{
		"no JSON":          {"GGUF", "invalid character"},
		"another object":   {`{"rows":[]}`, "no tasks"},
		"another schema":   {`{"schema":"sdnpu-timeline/2"}`, `schema "sdnpu-timeline/2"`},
		"null":             {`{"schema":"sdnpu-timeline/1","timelines":[null]}`, "timeline 0 is null"},
		"empty":            {`{"schema":"sdnpu-timeline/1","timelines":[]}`, "no tasks"},
		"backward":         {`{"tasks":[{"lane":"NPU","start_ms":2,"end_ms":1}]}`, "task 0 runs from 2 to 1 ms"},
		"an unknown lane":  {`{"tasks":[{"lane":"GPU"}]}`, "GPU"},
		"endless":          {`{"tasks":[{"lane":"NPU","end_ms":1e300}]}`, "1e+300"},
		"more than there":  {`{"tasks":[{"lane":"NPU","rows":8,"valid":7,"wasted":2}]}`, "7 valid and 2 wasted of 8 rows"},
		"negative waiting": {`{"tasks":[{"lane":"NPU","wait_ms":-1}]}`, "waited -1"},
	} {
		_, err := Read(strings.NewReader(test.text))
		require.ErrorIs(t, err, ErrRecord, name)
		require.ErrorContains(t, err, test.says, name)
	}
}

// The trace has the times of the record in microseconds, and no two tasks of a thread
// overlap.
func TestATraceHoldsEveryTask(t *testing.T) {
	r := sample()
	var b bytes.Buffer
	require.NoError(t, WriteTrace(&b, r))
	var trace struct {
		TraceEvents []event `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &trace))
	counts, busy := map[string]int{}, map[string]float64{}
	ends := map[[2]int]float64{}
	for _, e := range trace.TraceEvents {
		counts[e.Phase]++
		if e.Phase != complete {
			continue
		}
		busy[e.Name] += e.Duration
		thread := [2]int{e.Process, e.Thread}
		require.GreaterOrEqual(t, e.At, ends[thread], "%s overlaps what was before", e.Name)
		ends[thread] = e.At + e.Duration
	}
	tasks, memory := 0, 0
	for _, line := range r.Timelines {
		tasks, memory = tasks+len(line.Tasks), memory+len(line.Memory)
	}
	require.Equal(t, map[string]int{complete: tasks + 2, counter: memory, metadata: 8}, counts, "two stalls and the tasks")
	require.InDelta(t, 12e3, busy["stall"], 1e-6)
	require.InDelta(t, 42e3, busy["load decode graph of block 2"], 1e-6)
	require.InDelta(t, 3e3, busy["draft"], 1e-6)
	require.InDelta(t, 1e3, busy["sample"], 1e-6)
	require.InDelta(t, 20e3, busy["calibrate"], 1e-6)
	require.InDelta(t, 9e3, busy["chunk 1, block 2, float"], 1e-6)
	require.InDelta(t, 30e3, busy["verify, all blocks, decode"], 1e-6)
	require.InDelta(t, 36e3, busy["chunk 2, block 2, decode"], 1e-6)
}
