package llamaserver

import (
	"context"
	"fmt"
	"io"
	"time"
)

// discoveryPatience is how long AnswerDiscover waits for the host to end the
// process. It is far below the host's own limit of thirty seconds.
const discoveryPatience = 5 * time.Second

// AnswerDiscover answers the host's question about the system where no
// original program is there to do it: no accelerators. The host reads stderr
// until the word system_info and kills the process; a person who started the
// program by hand gets the prompt back after a few seconds.
func AnswerDiscover(ctx context.Context, stderr io.Writer) error {
	_, err := io.WriteString(stderr, "system_info: sdnpu, no devices; an NPU needs a model that selects it\n")
	if err != nil {
		return fmt.Errorf("llamaserver: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryPatience)
	defer cancel()
	<-ctx.Done()
	return nil
}

// AnswerListDevices lists no devices. A listed NPU would change the host's
// flags for every model, and placement does not need it.
func AnswerListDevices(stdout io.Writer) error {
	if _, err := io.WriteString(stdout, "Available devices:\n"); err != nil {
		return fmt.Errorf("llamaserver: %w", err)
	}
	return nil
}
