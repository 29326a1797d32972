package enable

// Process is the process that listens at the address of an Ollama.
type Process struct {
	// Executable is the path of its program. Deleted is set if that file was
	// replaced or removed since the process started.
	Executable string
	Deleted    bool
	// Own is set if the process belongs to the user of this program.
	Own bool
	// Environment holds its environment variables. Environment is nil if they cannot be read.
	Environment []string
}
