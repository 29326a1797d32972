package execute

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/sdnpu/sdnpu/graphswap"
)

// ErrLate is returned where a machine does not keep a phone's time, however much
// slower the phone is made: its figures would say nothing.
var ErrLate = errors.New("the machine is busy")

// Processes executes plans in processes of their own: the emulator reads once
// per process whose time it keeps.
type Processes struct {
	// Program and Args start a process that calls [Run] with the job on its
	// standard input and writes what that returns.
	Program string
	Args    []string
	// Device and Model are the profile's and the model's that the emulator
	// stands for.
	Device, Model string
	// Virtual asks for a clock that does not pass here.
	Virtual bool
	// Scale is how many times slower than the phone to begin with, Slowest the
	// most that is tried. Zero means 1 and 8.
	Scale, Slowest float64
	// Progress, when set, is told before each run of a plan: at what scale, and
	// by how much calls of the run before were late, 0 for a first one.
	Progress func(plan *graphswap.Plan, scale, lateMs float64)
}

// late is the part of a run's time by which the machine may have been late: what
// is later runs again, on a slower device.
const late = 0.01

// slowest is the largest scale that is tried where nothing else is said.
const slowest = 8

// Execute carries a plan out. A run with overruns is repeated at twice the scale
// and never averaged in; one that has them at the slowest scale is [ErrLate].
func (p *Processes) Execute(ctx context.Context, job Job) (*Result, error) {
	lateMs := 0.0
	for scale := cmp.Or(p.Scale, 1); ; scale *= 2 {
		job.Scale = scale
		if p.Progress != nil {
			p.Progress(job.Plan, scale, lateMs)
		}
		x, err := p.once(ctx, job)
		if err != nil || p.Virtual || x.OverrunMs <= late*x.Timeline.SwitchEndMs {
			return x, err
		}
		if scale >= cmp.Or(p.Slowest, slowest) {
			return nil, fmt.Errorf("execute: plan %s: calls were %.0f ms late in all, at %v times the phone's time too: %w", job.Plan.Name, x.OverrunMs, scale, ErrLate)
		}
		lateMs = x.OverrunMs
	}
}

func (p *Processes) once(ctx context.Context, job Job) (*Result, error) {
	if p.Virtual {
		job.Scale = 1
	}
	input, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("execute: %w", err)
	}
	command := exec.CommandContext(ctx, p.Program, p.Args...)
	command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SDNPU_EMULATOR=") }), p.setting(job.Scale))
	command.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("execute: plan %s: %w: %s", job.Plan.Name, err, lastLine(stderr.String()))
	}
	x := &Result{}
	if err := json.Unmarshal(output, x); err != nil {
		return nil, fmt.Errorf("execute: plan %s: %w", job.Plan.Name, err)
	}
	return x, x.Timeline.Check(job.Problem)
}

// setting is the emulator's variable.
func (p *Processes) setting(scale float64) string {
	pace := "wall"
	if p.Virtual {
		pace = "virtual"
	}
	return fmt.Sprintf("SDNPU_EMULATOR=profile=%s,as=%s,pace=%s,scale=%v", p.Device, p.Model, pace, scale)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// Layers is the number of layers that a model of a device's profile has.
func Layers(device, name string) (int, error) {
	profile, err := graphswap.Device(device)
	if err != nil {
		return 0, err
	}
	cost, err := profile.Cost(name)
	if err != nil {
		return 0, err
	}
	return cost.Model.Layers, nil
}
