package parent

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The test runs itself twice: as a parent, which starts a child and is killed, and
// as that child, which watches its parent.
const roleVariable = "PARENT_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "parent":
		child := exec.Command(os.Args[0]) //nolint:gosec // this test itself
		child.Env = append(os.Environ(), roleVariable+"=child")
		child.Stdout = os.Stdout
		if err := child.Run(); err != nil {
			fmt.Println("child:", err)
		}
	case "child":
		exited := make(chan struct{})
		wait := Watch(context.Background(), func() { close(exited) })
		fmt.Println("watching")
		select {
		case <-exited:
			fmt.Println("parent gone")
			wait()
		case <-time.After(5 * time.Minute):
			fmt.Println("never noticed")
		}
	default:
		os.Exit(m.Run())
	}
}

func TestKilledParentIsNoticed(t *testing.T) {
	parent := exec.Command(os.Args[0]) //nolint:gosec // this test itself
	parent.Env = append(os.Environ(), roleVariable+"=parent")
	output, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	lines := bufio.NewScanner(output) // the child inherits the pipe and keeps it open when the parent has been killed
	require.True(t, lines.Scan())
	require.Equal(t, "watching", lines.Text())
	require.NoError(t, parent.Process.Kill())
	require.True(t, lines.Scan())
	require.Equal(t, "parent gone", lines.Text())
	require.False(t, lines.Scan(), "the child has exited")
	require.Error(t, parent.Wait())
}

func TestRunningParentIsNotReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	wait := Watch(ctx, func() { t.Error("the parent is running") })
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGUSR1), "the signal alone means nothing")
	cancel()
	wait()
}
