package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sdnpu/sdnpu/adapters/config"
)

// wantedOf says what flags of a type take.
var wantedOf = map[string]string{
	"int": "a whole number", "int64": "a whole number", "float32": "a number", "float64": "a number",
	"intSlice": "whole numbers with commas between them", "bool": "true or false", "duration": "a time such as 90s or 24h",
	"stringToString": "name=value, with commas between several", "stringSlice": "values with commas between them and no quotation marks",
}

// sayFlag says of a flag's value what is wanted, where the error is that of a
// number's parser, or long because the value is.
func sayFlag(err error) error {
	var bad *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &bad) || !errors.As(err, &number) && config.Short(bad.GetValue()) == bad.GetValue() {
		return err
	}
	wanted, known := wantedOf[bad.GetFlag().Value.Type()]
	if !known {
		return err
	}
	if errors.Is(err, strconv.ErrRange) {
		wanted = "a smaller number"
	}
	return fmt.Errorf("--%s %s: %s wanted", bad.GetFlag().Name, config.Short(bad.GetValue()), wanted)
}

// What cobra notes at flags that were marked as groups.
const (
	exclusiveNote   = "cobra_annotation_mutually_exclusive"
	oneRequiredNote = "cobra_annotation_one_required"
)

// checkFlagGroups is cobra's ValidateFlagGroups in words that say what to type.
func checkFlagGroups(cmd *cobra.Command) (err error) {
	if cmd.ValidateFlagGroups() == nil {
		return nil
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		for _, group := range f.Annotations[exclusiveNote] {
			if set := changed(cmd, group); err == nil && len(set) > 1 {
				err = fmt.Errorf("%s exclude each other: give one of them", strings.Join(set, " and "))
			}
		}
		for _, group := range f.Annotations[oneRequiredNote] {
			if err == nil && len(changed(cmd, group)) == 0 {
				err = fmt.Errorf("one of --%s is required", strings.ReplaceAll(group, " ", " and --"))
			}
		}
	})
	if err == nil { // a kind of group that this function does not know
		err = cmd.ValidateFlagGroups()
	}
	return err
}

// checkRequiredFlags is cobra's ValidateRequiredFlags in words that say what is
// missing.
func checkRequiredFlags(cmd *cobra.Command) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 && !f.Changed {
			missing = append(missing, fmt.Sprintf("--%s is missing: %s", f.Name, strings.TrimSuffix(f.Usage, " (required)")))
		}
	})
	if len(missing) == 0 {
		return nil
	}
	return errors.New(strings.Join(missing, "; "))
}

// changed are the flags of a group that were given.
func changed(cmd *cobra.Command, group string) (set []string) {
	for _, name := range strings.Fields(group) {
		if cmd.Flags().Changed(name) {
			set = append(set, "--"+name)
		}
	}
	return set
}
