// Package compile has images compiled by a process of their own, so that a
// vendor's library that crashes or hangs over a graph costs an error and not the
// server.
//
// [Compiler] starts this program again for each image, sends it a [request] and
// copies the image that comes back; [Serve] is the other end. The child opens
// the same model file and the same library, writes the graphs from their
// sources, checks that they are the expected ones, and tells each step before it
// takes it. After a crash the last step told is what the error names; a child
// that tells nothing for too long is ended.
//
// # The conversation
//
// Both directions are gob: one request on the child's stdin, replies on its
// stdout; the bytes of the image follow the reply that announces them. The
// child's stdout belongs to the conversation alone: what a library prints goes
// to stderr, which is logged at debug level, the last line of it in the error of
// a crash. Stdin stays open for the child's life: when it ends, the parent has
// ended, and so does the child, whatever the library is doing.
//
// # Cost
//
// A start of the program and of the library per image, some tens of
// milliseconds, and a copy of the image through a pipe: together 0.2 of 4.4 s of
// processor time for SmolLM2 on the emulator (258 MB in two images), which is why
// the child does not write the file itself. The parent does not read the weights
// at all and holds nothing of the image.
package compile
