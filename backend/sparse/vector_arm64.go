package sparse

// vector is true: each 64-bit Arm processor has the instructions of the assembly.
const vector = true
