package main

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/sdnpu/sdnpu/adapters/execute"
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
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var job execute.Job
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&job); err != nil {
				return err
			}
			logger := newLogger(cmd.ErrOrStderr(), false)
			library, err := buildEmulator(cmd.Context(), logger)
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

// executor carries plans out in processes of this program.
func executor(device, model string) (*execute.Processes, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &execute.Processes{Program: self, Args: []string{executeCommand}, Device: device, Model: model}, nil
}
