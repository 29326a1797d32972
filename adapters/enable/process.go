package enable

// Process is the process that listens at the address of an Ollama.
type Process struct {
	// Executable is the path of the process's program. Deleted is set if the program's
	// file was replaced or removed after the process started.
	Executable string
	Deleted    bool
	// Own is set if the process that listens belongs to the user of this program.
	Own bool
	// Environment holds the environment variables of the process. Environment is nil if
	// the variables cannot be read.
	Environment []string
}
