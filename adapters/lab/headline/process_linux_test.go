package headline

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestChildIsMeasured starts a child process that computes, reports that it has finished
// computing, and then waits until its input ends.
func TestChildIsMeasured(t *testing.T) {
	const compute = `i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo computed; read line`
	child := exec.Command("sh", "-c", compute, "measured child")
	input, err := child.StdinPipe()
	require.NoError(t, err)
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "computed\n", line)
	require.GreaterOrEqual(t, processorTime(os.Getpid(), "measured child"), tick)
	require.Positive(t, peakMemory(os.Getpid(), "measured child"))
	require.Zero(t, processorTime(os.Getpid(), "another child"))
	require.Zero(t, processorTime(1<<30, "measured child"))
	require.Less(t, processorTime(os.Getpid(), "measured child"), time.Hour)
	require.NoError(t, input.Close())
	_ = child.Wait() // the shell's read fails at the end of its input
	require.Zero(t, peakMemory(os.Getpid(), "measured child"))
}
