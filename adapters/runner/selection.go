package runner

import (
	"errors"
	"os"
	"strings"

	"github.com/sdnpu/sdnpu/adapters/config"
	"github.com/sdnpu/sdnpu/adapters/launch"
	"github.com/sdnpu/sdnpu/adapters/llamaserver/arguments"
	"github.com/sdnpu/sdnpu/backend/gguf"
)

const notSelected = "the model is not selected for the NPU (sdnpu.enabled)"

// readConfig reads the config of the model and of its adapters, and the environment. The
// argument `modes` holds the modes that only the laboratory has. If the original
// llama-server should run the model, reason says why.
func readConfig(args arguments.Args, modes config.Modes) (c config.Config, reason string, err error) {
	var sources []config.Source
	for i, path := range append([]string{args.Model}, args.Lora...) {
		name := "the model"
		if i > 0 {
			name = "the adapter"
		}
		source, err := launch.ConfigSource(name, path)
		if err != nil {
			if !errors.Is(err, config.ErrSetting) {
				// If this program cannot read the model file, the original llama-server can
				// read the file, or reports why it cannot.
				return c, err.Error(), nil
			}
			return c, "", err
		}
		sources = append(sources, source)
	}
	sources = append(sources, config.Environment(os.LookupEnv))
	if selected, err := modes.Enabled(sources...); err == nil && !selected {
		return c, notSelected, nil // errors in other keys do not change which program runs the model
	}
	c, err = modes.Resolve(sources...)
	switch {
	case err != nil:
		return c, "", err
	case !c.Enabled:
		return c, notSelected, nil
	case args.GPULayers == 0:
		return c, "num_gpu 0 asks for the CPU", nil
	}
	for _, path := range args.Lora {
		if reason = changesWeights(path); reason != "" {
			return c, reason, nil
		}
	}
	return c, "", nil
}

// changesWeights describes an adapter that changes the model's weights, because the
// engine would ignore such changes. For an adapter that only carries settings,
// changesWeights returns "".
func changesWeights(path string) (reason string) {
	f, err := gguf.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	for t := range f.Tensors() {
		if !strings.HasPrefix(t.Name, config.Prefix) {
			return "the adapter " + path + " changes weights (LoRA), which is not supported on the NPU"
		}
	}
	return ""
}
