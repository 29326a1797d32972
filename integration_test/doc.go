// Package integration holds the tests of the whole: the import rules, the
// command, the real Ollama, faults. What each needs and how it skips is said
// by the test itself. The folders with a go.mod are modules of their own:
// client/* hold the real client code of several Ollama versions, server the
// real server (the only place that needs cgo).
package integration
