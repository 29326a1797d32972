// Package config turns model config and environment into settings.
//
// One table, [Keys], lists every setting: its key in a GGUF's metadata
// ("sdnpu.recipe"), its environment variable ("SDNPU_RECIPE"), its default and
// its check. A model is selected for the NPU by its own GGUF or by an adapter
// GGUF (a Modelfile's ADAPTER line, --lora for the runner); the adapter's
// values win over the model's, the environment's over both. A key of ours that
// the table does not know is an error, so that a misspelt setting is never
// silently ignored.
package config
