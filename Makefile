# make prints the targets; the two that matter first are demo and test.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

export SDNPU_DATA ?= $(abspath ../shared/data)
export SDNPU_VENDOR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sdnpu/vendor
export SDNPU_MODELS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sdnpu/models
export CGO_ENABLED ?= 0

MODEL  ?= integration_test/models/stories260K-f16.gguf
PROMPT ?=
FUZZTIME ?= 1m
CLIENTS := v0.30.0.mod v0.31.0.mod v0.32.0.mod go.mod
TOOL := go tool -modfile=.ci/go.mod

.PHONY: help build demo test test-full race soak sanitize bench fuzz lint check cross emulator generate vendor models test-vendor test-vendor-full clean

help: ## print the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

build: ## build the program into bin/: sdnpu, and llama-server, the same under Ollama's name
	mkdir -p bin
	go build -o bin/sdnpu ./adapters/sdnpu
	ln -f bin/sdnpu bin/llama-server

demo: ## a real Ollama answers through our program; MODEL=any.gguf PROMPT='…'
	@.ci/tools.sh go cc
	@go run ./integration_test/demo -model "$(MODEL)" -prompt "$(PROMPT)"

test: ## all tests; what the machine lacks is named
	@.ci/tools.sh go cc
	go test -timeout 40m ./...
	@for m in $(CLIENTS); do echo "Ollama's client code, $$m:"; \
	  (cd integration_test/client && go test -modfile=$$m -timeout 10m .); done

test-full: ## the long sweeps too (hours)
	SDNPU_FULL=1 go test -timeout 12h ./...

race: ## tests under the race detector (needs cgo)
	CGO_ENABLED=1 go test -race -short -timeout 40m ./backend/... ./adapters/... ./hexagon/...

soak: ## graphs are exchanged while loads, runs and requests fail, for SOAK (default 10m)
	SDNPU_SOAK=$(or $(SOAK),10m) go test -count=1 -timeout 12h -v -run 'WhateverFailsWhileGraphs|ExchangedGraphsLeave' ./backend/engine ./hexagon

sanitize: ## the emulator's C under the sanitizers
	go test -count=1 -run 'Sanit|Thread|Oper|Blob' ./hexagon/emulator/...

bench: ## speed of operators, prefill and decode
	go test -v -run "^$$" -bench . -benchtime 3x ./spec/... ./backend/... ./hexagon/... ./integration_test

fuzz: ## each fuzz target for FUZZTIME, all of them whatever one finds; PKG=./dir for one package's
	@failed=; for p in $(or $(PKG),$$(grep -rl --include=*_test.go '^func Fuzz' . | xargs -n1 dirname | sort -u)); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$p/*_test.go | sed 's/func //'); do \
	    echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s $$p || failed="$$failed $$p/$$f"; done; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

lint: ## gofumpt, vet, staticcheck
	@bad=$$($(TOOL) gofumpt -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "not gofumpt-clean: $$bad"; exit 1; }
	go vet ./...
	$(TOOL) staticcheck ./...

cross: ## builds for the systems that need no cgo
	for t in linux/amd64 linux/arm64 windows/amd64 windows/arm64; do \
	  GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 go build -o /dev/null ./adapters/sdnpu && echo "ok $$t"; done

check: lint cross ## what a commit must pass
	go mod verify
	go test -short -timeout 20m ./...

emulator: ## build the emulator; prints its path
	@go run ./adapters/sdnpu emulator

generate: ## write the generated files anew; leaves a clean tree clean
	go generate ./...

vendor: ## fetch the vendor's library into a cache folder (never into the repository)
	.ci/vendor.sh "$(SDNPU_VENDOR)"

models: ## fetch SmolLM2-135M for whole-model tests into a cache folder
	.ci/models.sh "$(SDNPU_MODELS)"

# What make test-vendor asks for: its tests fail, and do not skip, without.
VENDOR_TESTS := SDNPU_REQUIRE=vendor,models

test-vendor: vendor models ## fetches both, then the tests that take minutes on the vendor's library
	$(VENDOR_TESTS) go test -timeout 60m -run 'Vendor|ExchangesItself|WholeModels|ModelsEmit|Forms' ./hexagon ./hexagon/forms ./hexagon/whole
	$(VENDOR_TESTS) go test -timeout 20m -run 'EveryFamily|FirstContactWithTheVendors' ./integration_test ./adapters/sdnpu

test-vendor-full: vendor models ## whole models, all layers; rewrites hexagon/whole/testdata (hours); PART='30_layers/vendor/f16' for some, MISSING=1 for what is not there
	$(VENDOR_TESTS) SDNPU_FULL=1 go test -timeout 12h -v ./hexagon/whole \
	  -run '$(if $(PART),WholeModels/$(PART),WholeModels|ModelsEmit)' -update $(if $(MISSING),-missing)

clean: ## remove what was built here
	rm -rf bin build
