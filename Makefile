# Proxyard. `make` lists the targets. What takes minutes to build is cached outside the checkout, below
# $PROXYARD_CACHE (default ~/.cache/proxyard), keyed by its inputs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED ?= 0

TOOLS := config/tools
LAB := go run ./e2e/lab/cmd/lab
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# RACE=1 runs the unit lane with the race detector, which needs a C compiler.
RACE ?=
# ARGS are passed on to go test, for example ARGS='-run TestCreate'.
ARGS ?=

##@ General

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install the Debian packages that the lab, the demo and the lanes beyond unit need (root).
	@$(LAB) test-deps

.PHONY: clean
clean: ## Remove what was built in the checkout. The cache stays.
	@rm -rf bin dist

##@ Try it

.PHONY: demo
demo: ## Two Proxies on two real libvirt hosts, on this machine alone (Linux, root).
	@$(LAB) demo

.PHONY: demo-down
demo-down: ## Stop the demo; nothing of it stays.
	@$(LAB) down

##@ Develop

.PHONY: build
build: ## Build the static manager into bin/.
	@mkdir -p bin
	@CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/manager ./cmd/manager

.PHONY: generate
generate: ## Generate deepcopy, CRDs, RBAC and the API reference from the sources.
	@$(TOOLS)/generate.sh .

.PHONY: fmt
fmt: ## Format the Go code.
	@$(TOOLS)/lint.sh fmt

.PHONY: lint
lint: ## Lint, with the rules of who may import whom.
	@$(TOOLS)/verify.sh lint

.PHONY: verify
verify: ## Check generated files, lint, vulnerabilities, go.mod files, change log and links.
	@$(TOOLS)/verify.sh generated tidy changelog links lint vulnerabilities

##@ Test

.PHONY: test
test: ## All lanes, in the order below; stops at the first that fails.
	@MAKE='$(MAKE)' $(TOOLS)/lanes.sh unit controlplane libvirt e2e

.PHONY: unit
unit: ## Unit tests: seconds, only Go is needed (RACE=1 with the race detector).
	@$(if $(RACE),CGO_ENABLED=1) $(TOOLS)/lane.sh unit $(if $(RACE),-race) $(ARGS) ./...

.PHONY: controlplane
controlplane: ## Controllers against a real Kubernetes API server, built on the first run (minutes).
	@PROXYARD_CONTROLPLANE=$$($(LAB) controlplane) && export PROXYARD_CONTROLPLANE && \
	  $(TOOLS)/lane.sh controlplane -count=1 -p=1 -tags=controlplane $(ARGS) ./cmd/manager/...

.PHONY: libvirt
libvirt: deps ## The kvm provider against real libvirtd, cloud-init and squid on this machine (Linux, root).
	@$(TOOLS)/lane.sh libvirt -count=1 -p=1 -timeout=20m -tags=libvirt,lab,cloudinit,squid $(ARGS) \
	  ./providers/kvm/... ./e2e/lab/... ./pkg/cloudinit/... ./pkg/squidconf/...

.PHONY: e2e
e2e: deps ## The whole way with real guests that boot and install squid (Linux, root).
	@LIVE=1 $(TOOLS)/lane.sh e2e -count=1 -timeout=30m -tags=e2e $(ARGS) ./e2e
