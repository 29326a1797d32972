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

// AnswerVersion says which program this is.
func AnswerVersion(stdout io.Writer, version string) error {
	if _, err := fmt.Fprintf(stdout, "sdnpu %s, in place of llama-server\n", version); err != nil {
		return fmt.Errorf("llamaserver: %w", err)
	}
	return nil
}

// AnswerHelp lists the arguments that have an effect here.
func AnswerHelp(stdout io.Writer) error {
	if _, err := io.WriteString(stdout, help); err != nil {
		return fmt.Errorf("llamaserver: %w", err)
	}
	return nil
}

const help = `sdnpu in place of llama-server: serves one GGUF model on the NPU over HTTP, as Ollama starts it.

  -m, --model FILE         GGUF file; it, an adapter or SDNPU_ENABLED selects it for the NPU
      --lora FILE          adapter that carries settings (sdnpu.*); may be given again
      --host ADDRESS       where to listen (127.0.0.1)
      --port N             port (8080); 0 takes a free one
  -c, --ctx-size N         tokens of context of all slots together; 0: the model's own
  -np, --parallel N        slots: requests answered at the same time (1)
      --context-shift      a full context drops the older half of the text and goes on
      --no-context-shift   a full context ends the answer (default)
      --keep N             leading tokens that a shift never drops; -1: the whole prompt (0)
  -ngl, --gpu-layers N     0 asks for the CPU, which is not ours to give
      --list-devices       list devices and end: none is ever listed
      --version            which program this is
  -h, --help               this text

Ollama's other arguments are accepted and change nothing; unknown ones are told and ignored.
"--name=value" may be written for "--name value". Settings: sdnpu --help.
`
