// Package config resolves a model's settings from its GGUF, its adapters, the
// environment and flags.
//
// The table [Keys] lists every setting: its key in a GGUF's metadata
// ("sdnpu.recipe"), its environment variable ("SDNPU_RECIPE"), its default and
// its check. A model is selected for the NPU by its own GGUF or by an adapter
// GGUF (a Modelfile's ADAPTER line, --lora for the runner). The adapter's values
// override the model's, and the environment's override both.
//
// # Invariants
//
//   - A key with our prefix that the table does not contain is an error, so a
//     misspelt setting is never ignored.
//   - A value that an earlier version accepted is still accepted. [Config].Notes
//     then names the value that is used instead.
//   - A model or an adapter names no folder, host or library, and no size above its
//     limit: [Key].Origins and [Key.CheckModel]. Such a value is ignored and noted.
//   - Errors name the key, the beginning of the value and the source.
package config
