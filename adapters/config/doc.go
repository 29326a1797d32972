// Package config determines a model's settings from its GGUF file, its adapters,
// the environment and flags.
//
// The table [Keys] lists every setting: its key in a GGUF's metadata
// ("sdnpu.recipe"), its environment variable ("SDNPU_RECIPE"), its default and its
// check. A model is selected for the NPU by its own GGUF or by an adapter GGUF (a
// Modelfile's ADAPTER line, --lora for the runner). Values of the adapter override
// those of the model, and values of the environment override both.
//
// # Invariants
//
//   - A key that begins with "sdnpu." and is not in the table is an error, so a
//     misspelt setting is never ignored.
//   - Values of earlier versions are still accepted. [Config].Notes then names the
//     value that is used in their place.
//   - A model or an adapter may not choose a folder, host or library, and no size
//     above a limit. [Key].Origins and [Key.CheckModel] define what is allowed. A
//     value that is not allowed is ignored and noted.
//   - Errors name the key, the beginning of the value and the source.
package config
