package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/bench"
	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/execute"
	"github.com/sdnpu/sdnpu/graphswap"
	"github.com/sdnpu/sdnpu/hexagon"
)

// executeCommand is how this program calls itself to carry out one plan.
const executeCommand = "execute-child"

// newExecuteCommand is for this program itself: the emulator reads once per
// process whose time it keeps.
func newExecuteCommand() *cobra.Command {
	return &cobra.Command{
		Use:    executeCommand,
		Short:  "Carry out a plan that standard input brings",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var job execute.Job
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&job); err != nil {
				return err
			}
			logger := newLogger(cmd.ErrOrStderr(), false)
			library, err := buildEmulator(cmd.Context(), logger, nil)
			if err != nil {
				return err
			}
			stdout, err := takeStdout()
			if err != nil {
				return err
			}
			d, err := hexagon.Open(hexagon.Options{Library: library, Name: "emulator", Logger: logger, Costs: true})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.Close()) }()
			x, err := execute.Run(cmd.Context(), d, job)
			if err != nil {
				return err
			}
			return json.NewEncoder(stdout).Encode(x)
		},
	}
}

// executor carries out plans for a model of a device's profile in processes of
// this program.
type executor struct {
	execute.Processes
	layers            int
	allLogits, drafts bool
}

func newExecutor(device, model string) (*executor, error) {
	layers, err := execute.Layers(device, model)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &executor{Processes: execute.Processes{Program: self, Args: []string{executeCommand}, Device: device, Model: model}, layers: layers}, nil
}

// Execute is bench's way to have a plan executed.
func (x *executor) Execute(ctx context.Context, plan *graphswap.Plan, problem *graphswap.Problem) (*graphswap.Timeline, error) {
	done, err := x.run(ctx, plan, problem)
	if errors.Is(err, execute.ErrLate) {
		err = fmt.Errorf("%w: wait until it is idle, or take --pace virtual", err)
	}
	if err != nil {
		return nil, err
	}
	return done.Timeline, nil
}

func (x *executor) run(ctx context.Context, plan *graphswap.Plan, problem *graphswap.Problem) (*execute.Result, error) {
	return x.Processes.Execute(ctx, execute.Job{Plan: plan, Problem: problem, Layers: x.layers, AllLogits: x.allLogits, Drafts: x.drafts})
}

// executeFlags say how plans are executed.
type executeFlags struct {
	on    bool
	pace  string
	scale float64
}

func (f *executeFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "execute", false, "also carry each plan out: the engine, with a tiny model, on an emulator that keeps the phone's time")
	flags.StringVar(&f.pace, "pace", "wall", "with --execute: wall, the phone's time on this machine's clock, or virtual, on a clock of its own")
	flags.Float64Var(&f.scale, "scale", 1, "with --execute and --pace wall: how many times slower than the phone; doubled, up to 8, where calls were late")
}

// executor is nil where nothing is to be executed. It tells on progress what it
// does.
func (f *executeFlags) executor(progress io.Writer, device, model string, allLogits, drafts bool) (bench.Executor, error) {
	if !f.on {
		return nil, nil
	}
	if f.pace != "wall" && f.pace != "virtual" {
		return nil, fmt.Errorf("--pace %q: wall or virtual wanted", config.Short(f.pace))
	}
	if !(f.scale > 0 && f.scale <= 100) {
		return nil, fmt.Errorf("--scale %v: more than 0 and at most 100 wanted", f.scale)
	}
	x, err := newExecutor(device, model)
	if err != nil {
		return nil, err
	}
	x.Virtual, x.Scale, x.allLogits, x.drafts = f.pace == "virtual", f.scale, allLogits, drafts
	x.Progress = func(plan *graphswap.Plan, scale, lateMs float64) {
		if lateMs > 0 {
			fmt.Fprintf(progress, "calls were %.0f ms late: again, %v times slower than the phone\n", lateMs, scale)
			return
		}
		spare := ""
		if plan.Spare {
			spare = " with a spare slot"
		}
		fmt.Fprintf(progress, "executing %s on %d blocks%s\n", plan.Name, plan.Blocks, spare)
	}
	return x, nil
}
