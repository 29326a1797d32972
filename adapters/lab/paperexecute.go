package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/cmdline"
	"github.com/sdnpu/sdnpu/adapters/lab/bench"
	"github.com/sdnpu/sdnpu/adapters/lab/paper"
	"github.com/sdnpu/sdnpu/adapters/lab/published"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/backend/engine"
	"github.com/sdnpu/sdnpu/backend/engine/draft/baseline"
)

// paperCommand is the argument with which this program starts itself as a child process that
// answers the prompts of one run for the command `paper`.
const paperCommand = "paper-child"

// paperJob is the input of the child process: a run, and the prompts to answer.
type paperJob struct {
	Run     paper.Run
	Model   string
	Context int
	Tokens  int
	Items   []bench.Item
}

// newPaperChildCommand returns the command of the child process. Each phone needs its own
// process, because the emulator reads its pace only once per process.
func newPaperChildCommand() *cobra.Command {
	return &cobra.Command{
		Use:    paperCommand,
		Short:  "Answer the prompts on the standard input (for internal use)",
		Hidden: true,
		Args:   cmdline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var job paperJob
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&job); err != nil {
				return err
			}
			stdout, err := cmdline.TakeStdout()
			if err != nil {
				return err
			}
			return job.answer(cmd.Context(), stdout, cmd.ErrOrStderr())
		},
	}
}

// answer answers the prompts and writes one line for each.
func (j *paperJob) answer(ctx context.Context, stdout, stderr io.Writer) (err error) {
	g, err := j.open(ctx, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	lines := json.NewEncoder(stdout)
	for _, item := range j.Items {
		r, err := g.Generate(ctx, engine.Request{Prompt: item.IDs, MaxTokens: j.Tokens}, func(engine.Piece) error { return nil })
		if err != nil {
			return fmt.Errorf("%s %s: %w", item.Task, item.ID, err)
		}
		q, ok := paper.NewRequest(&r)
		if !ok {
			return errors.New("the emulator simulates no phone")
		}
		q.Run, q.Model, q.Task, q.ID, q.Limit = j.Run, filepath.Base(j.Model), item.Task, item.ID, j.Tokens
		if j.Run.System == paper.NPU {
			q.PromptIDs, q.OutputIDs = item.IDs, r.Output
		}
		sum := sha256.Sum256(fmt.Append(nil, r.Output))
		q.Text = hex.EncodeToString(sum[:8])
		if err := lines.Encode(q); err != nil {
			return err
		}
	}
	return nil
}

// open opens the model with the settings of the run's system.
func (j *paperJob) open(ctx context.Context, stderr io.Writer) (bench.Generator, error) {
	i := slices.IndexFunc(paper.Systems(), func(s paper.System) bool { return s.Name == j.Run.System })
	if i < 0 {
		return nil, fmt.Errorf("unknown system %q", j.Run.System)
	}
	system := paper.Systems()[i]
	s, err := launch.ReadSettings()
	if err != nil {
		return nil, err
	}
	s.Library = "emulator"
	c, err := launch.ResolveConfig(j.Model, system.Keys)
	if err != nil {
		return nil, err
	}
	if system.Draft != "" {
		if c.Draft, err = baseline.Parse(system.Draft); err != nil {
			return nil, err
		}
	}
	c.FirstContext, c.Database = j.Context, "" // texts of earlier runs in a database would change the result
	o := launch.Options{Path: j.Model, Config: c, Context: j.Context, IdleSwitch: time.Nanosecond}
	if system.Plan != "" {
		o.Policy = published.Plan(system.Plan, system.Spare)
	}
	return openGenerator(ctx, s, o, stderr)
}

// execute answers the prompts of a run in a child process, and calls each with every request.
func (j *paperJob) execute(ctx context.Context, stderr io.Writer, each func(paper.Request) error) (err error) {
	self, err := launch.OwnProgram()
	if err != nil {
		return err
	}
	input, err := json.Marshal(j)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	child := exec.CommandContext(ctx, self, paperCommand)
	child.Stdin = strings.NewReader(string(input))
	child.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SDNPU_EMULATOR=") }),
		fmt.Sprintf("SDNPU_EMULATOR=profile=%s,as=%s,pace=virtual", j.Run.Phone, j.Run.As))
	child.Stderr = stderr
	output, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, child.Wait()) }()
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q paper.Request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			cancel()
			return err
		}
		if err := each(q); err != nil {
			cancel()
			return err
		}
	}
	return lines.Err()
}
