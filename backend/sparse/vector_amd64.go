package sparse

import "golang.org/x/sys/cpu"

// vector reports whether the processor has the instructions of the assembly.
var vector = cpu.X86.HasAVX2 && cpu.X86.HasF16C
