// Package compile compiles images in child processes, so that a crash or a hang
// of the vendor's library does not end the server.
//
// [Compiler] starts this program again for each image, sends it a request and
// copies the image that comes back. [Serve] runs in the child. The child opens
// the same model file and the same library, writes the graphs from their
// sources and checks that they are the expected graphs. It announces each step
// before it takes the step: after a crash, the error names the last announced
// step. A child that announces nothing for too long is killed.
//
// # Protocol
//
// Both directions are gob: one request on the child's stdin, replies on its
// stdout. The bytes of the image follow the reply that announces them. Only
// replies go to the child's stdout; the output of a library goes to stderr, is
// logged at debug level, and its last line becomes part of a crash's error. The
// parent keeps stdin open. When it closes, the parent has exited, and the child
// exits too.
//
// # Cost
//
// Each image costs a start of the program and of the library, some tens of
// milliseconds, and a copy of the image through a pipe: together 0.2 of 4.4 s of
// processor time for SmolLM2 on the emulator (258 MB in two images). The parent
// neither reads the weights nor holds the image in memory.
package compile
