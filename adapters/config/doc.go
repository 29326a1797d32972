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
//   - A key that begins with "sdnpu." and is not in the table [Keys] is an error.
//   - A value of an earlier version is accepted, and [Config].Notes names the present value.
//   - A model or an adapter may not choose a folder, a host or a library.
//   - A model or an adapter may choose a size only up to a limit; see [Key.CheckModel].
//   - A value that a model or an adapter may not set is ignored and noted.
//   - Errors name the key, the beginning of the value and the source.
package config
