// Package launch turns settings into an open device, a loaded model and an
// engine. Commands, the server and the laboratory start models through it only.
//
// It reads the machine's environment variables and a model's config, finds the
// vendor's library or builds the emulator, and explains failures with what to
// do. It does not decide how a model runs: package config does, and
// backend/engine computes.
package launch
