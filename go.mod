module github.com/sdnpu/sdnpu

go 1.26.0

require (
	github.com/ebitengine/purego v0.11.3 // Apache-2.0: calls into shared objects without cgo
	github.com/ollama/ollama v0.32.9 // MIT: fs/gguf; tokenizer as an oracle in tests
	github.com/schollz/progressbar/v3 v3.19.1 // MIT: progress of long work in the command
	github.com/spf13/cobra v1.10.2 // Apache-2.0: the command line, as Ollama's own
	github.com/stretchr/testify v1.12.1 // MIT: tests
	golang.org/x/sys v0.49.0 // BSD-3-Clause: file mapping, exec, parent watch
)

require (
	github.com/dlclark/regexp2 v1.11.5 // indirect
	github.com/emirpasic/gods/v2 v2.0.0-alpha // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/term v0.44.0 // BSD-3-Clause: is somebody looking
)
