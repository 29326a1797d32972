package mapped

import (
	"bytes"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stopAndWrite simulates a process that is stopped while another process writes to its kept
// file: until `resume` is called, the signal about the writer is not handled. If giveUp is
// set, the writer continues at once; otherwise the system holds the writer for the break
// time.
func stopAndWrite(t *testing.T, path string, f *File, giveUp bool) (resume func()) {
	t.Helper()
	l := f.held.(*lease)
	l.mu.Lock()
	written := make(chan error, 1)
	go func() { written <- changes["written in place"](path) }()
	require.Eventually(t, func() bool {
		kind, err := unix.FcntlInt(uintptr(l.fd), unix.F_GETLEASE, 0)
		return err == nil && kind == unix.F_UNLCK
	}, time.Minute, time.Millisecond, "the writer begins")
	if giveUp {
		_, err := unix.FcntlInt(uintptr(l.fd), unix.F_SETLEASE, unix.F_UNLCK)
		require.NoError(t, err)
	}
	require.NoError(t, <-written)
	return l.mu.Unlock
}

// forgetCheck makes the next call of Verify ask the system about each file, as if half the
// break time had passed.
func forgetCheck() { checkedUntil.Store(0) }

// giveUps lists the ways in which a test lets a writer continue. Only the soak test
// waits until the system lets the writer continue.
func giveUps() map[string]bool {
	ways := map[string]bool{"at once": true}
	if os.Getenv("SDNPU_SOAK") != "" {
		ways["after the break time"] = false
	}
	return ways
}

func TestFilesWrittenWhileTheProcessWasStoppedAreGone(t *testing.T) {
	for name, giveUp := range giveUps() {
		t.Run(name, func(t *testing.T) {
			want := random(1 << 20)
			path, f := keep(t, want, Keeping{Lost: func(err error) { t.Error(err) }})
			require.NoError(t, Verify())
			resume := stopAndWrite(t, path, f, giveUp)
			require.False(t, bytes.Equal(want, f.Bytes()), "the window: the bytes are those of the writer")
			forgetCheck()
			resume()
			require.ErrorIs(t, Verify(), ErrGone)
			require.ErrorIs(t, Verify(), ErrGone, "without asking the system again")
			var sum byte
			require.ErrorIs(t, Guard(func() error { sum += f.Bytes()[0]; return nil }), ErrGone)
			require.NoError(t, f.Close())
			require.NoError(t, Verify(), "the file is not used any more")
		})
	}
}

func TestLostIsCalledIfTheProcessWasStopped(t *testing.T) {
	reasons := make(chan string, 2)
	path, f := keep(t, random(1<<20), Keeping{Unguarded: true, Lost: func(err error) { reasons <- err.Error() }})
	stopAndWrite(t, path, f, true)()
	require.Equal(t, "mapped: "+path+" was written while it was used, and its bytes could not be kept: "+errLate.Error(), <-reasons)
	require.ErrorIs(t, Verify(), ErrGone)
	require.Empty(t, reasons, "once")
}

// TestVerifyWaitsForTheHandler checks that no result is used while it is not known
// whether a writer continued.
func TestVerifyWaitsForTheHandler(t *testing.T) {
	path, f := keep(t, random(1<<20), Keeping{})
	forgetCheck()
	resume := stopAndWrite(t, path, f, true)
	var resumed atomic.Bool
	verdict := make(chan error)
	go func() {
		err := Verify()
		if !resumed.Load() {
			t.Error("Verify did not wait")
		}
		verdict <- err
	}()
	time.Sleep(20 * time.Millisecond) // if Verify did not wait for the handler, Verify would return during this pause
	resumed.Store(true)
	resume()
	require.ErrorIs(t, <-verdict, ErrGone)
}

// TestVerifyAsksAgainBeforeAWriterCanContinue checks that Verify asks the system again
// after half the break time, and not before.
func TestVerifyAsksAgainBeforeAWriterCanContinue(t *testing.T) {
	old := breakTime
	t.Cleanup(func() { breakTime = old; forgetCheck() })
	breakTime = func() time.Duration { return time.Hour }
	forgetCheck()
	before := sinceStart()
	require.NoError(t, Verify())
	until := time.Duration(checkedUntil.Load())
	require.GreaterOrEqual(t, until, before+time.Hour/2)
	require.LessOrEqual(t, until, sinceStart()+time.Hour/2, "counted from before the check")
	require.NoError(t, Verify())
	require.EqualValues(t, until, checkedUntil.Load(), "the answer still holds")
	forgetCheck()
	require.NoError(t, Verify())
	require.Greater(t, time.Duration(checkedUntil.Load()), until)
}

func BenchmarkVerify(b *testing.B) {
	_, f := keep(b, random(5000), Keeping{})
	for b.Loop() {
		if err := Verify(); err != nil {
			b.Fatal(err)
		}
	}
	require.NotNil(b, f)
}
