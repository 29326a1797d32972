package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What flags that several commands have say of themselves.
const (
	libraryUsage = "emulator, float, or the path of a QNN library (default: SDNPU_LIBRARY, else the installed one)"
	rowsUsage    = "widths of the graphs in rows, widest first, as in 128,1 (default: the model's config)"
	blocksUsage  = "runs of layers that are compiled apart (default: the model's config, else one for each 100 million parameters)"
	contextUsage = "tokens of context, prompt and answer together (default: the model's, 4096 at most)"
	draftUsage   = "sources of speculative drafts: off, default, paper, or pld, sam, cal, ext, rec, db joined by +"
	textUsage    = "`file` with text, may be given again; a line of ===== parts passages (default: a text of our own)"
)

// rootHelp is where a new user begins.
const rootHelp = `Run GGUF models on the Qualcomm Hexagon NPU, under Ollama or alone.

Where to begin:
  sdnpu doctor                              what this machine has, what is missing and what to do
  sdnpu run MODEL.gguf --prompt TEXT        one answer without Ollama; on a PC with --library emulator
  sdnpu install DIR                         an Ollama in a folder of its own that uses this program
  sdnpu select MODEL.gguf --adapter A.gguf  choose a model for the NPU, and with --set how it runs

What a model wants (precision, drafts, widths, plans) are keys in its GGUF or adapter, which
sdnpu select --help explains; a variable such as SDNPU_RECIPE or a flag wins over them. What
the machine is, only variables say:
`

// machineVariable is one that no key of a model's config stands for.
type machineVariable struct{ name, doc string }

// machineVariables are all of them.
var machineVariables = []machineVariable{
	{"SDNPU_LIBRARY", "emulator, float (plain Go), or the path of a QNN library (default: the installed one)"},
	{"SDNPU_SOC", "chip to compile for, as sm8650 or the vendor's number (default: this device's, on a PC 57, the SM8650)"},
	{"SDNPU_CACHE", "folder of compiled images, or off (default: sdnpu/images in the user's cache folder)"},
	{"SDNPU_CACHE_SIZE", "what that folder keeps: 8GiB, 20% of the disk, unlimited (default: 20%, at most 16GiB)"},
	{"SDNPU_PREPARED", "folders that sdnpu prepare filled on a PC, several as in PATH (default: none)"},
	{"SDNPU_ORIGINAL", "Ollama's own llama-server, for other models (default: " + originalName + " beside this program)"},
	{"SDNPU_COMPILE", "inline compiles in this process; 10m lets the compiling process be silent that long"},
	{gateVariable, "off runs recipes that a check found below their gate (default: on)"},
	{"SDNPU_EMULATOR", "profile=sd8gen2,… makes the emulator take a phone's time and memory (default: this machine's)"},
}

// rootLong is the help of the whole program.
func rootLong() string {
	var b strings.Builder
	b.WriteString(rootHelp)
	for _, v := range machineVariables {
		fmt.Fprintf(&b, "  %-16s  %s\n", v.name, v.doc)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// alsoCalled lets a flag be given by the name that it had before, which the help no
// longer tells.
func alsoCalled(cmd *cobra.Command, earlier, name string) {
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, given string) pflag.NormalizedName {
		if given == earlier {
			given = name
		}
		return pflag.NormalizedName(given)
	})
}
