# `make help` lists what can be made. `make test` is all that CI runs.
SHELL := /usr/bin/env bash -o pipefail
.SHELLFLAGS := -ec
.DEFAULT_GOAL := help
# The parts of a target are in order, the fast ones first.
.NOTPARALLEL:

# A checkout that is owned by another user, or that has no commit, builds too.
export GOFLAGS := -buildvcs=false $(GOFLAGS)

KUBECTL ?= kubectl

# The Kubernetes that tests and the demo run on. Set KUBEBUILDER_ASSETS to use binaries of your own: then none are built.
KUBERNETES_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' hack/controlplane/go.mod)
BUILT_ASSETS := $(CURDIR)/bin/k8s/$(KUBERNETES_VERSION)
export KUBEBUILDER_ASSETS ?= $(BUILT_ASSETS)

# Packages whose tests need an API server, and those that need the whole: all others do with `go test`.
API_TESTS := ./api/... ./config/... ./internal/controller/...
E2E_TESTS := ./test/...
UNIT_TESTS = $$(go list ./... | grep -vE '^[^/]+/[^/]+/[^/]+/(api|config|internal/controller|test)(/|$$)')

GENERATED := api/v1alpha1/zz_generated.deepcopy.go config/crd/bases config/rbac/role.yaml docs/reference/api.md

##@ Develop

help: ## Print this
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { print "\n" substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the operator, the kubectl plugin and the tool servers into bin/
	go build -trimpath -o bin/ ./cmd/... ./toolservers/...

run: ## Run the operator here, against the cluster of the current kubeconfig
	go run ./cmd/interlock

generate: docs bin/controller-gen ## Make what is generated from the API types: deepcopy, CRDs, RBAC, reference
	bin/controller-gen object:headerFile=hack/boilerplate.go.txt crd rbac:roleName=interlock-operator \
		paths=./api/... paths=./internal/controller/... paths=./cmd/interlock/... output:crd:dir=config/crd/bases output:rbac:dir=config/rbac

docs: bin/crd-ref-docs ## Make docs/reference from the API types
	@mkdir -p docs/reference
	bin/crd-ref-docs --log-level=ERROR --source-path=api/v1alpha1 --config=hack/crd-ref-docs.yaml --renderer=markdown --output-path=docs/reference/api.md

catalog-data: ## Make the data of toolservers/catalog from a pinned npm package
	hack/catalog-data/generate.sh

fmt: bin/golangci-lint ## Format the Go code
	bin/golangci-lint fmt

clean: ## Remove what was built, the control plane too
	rm -rf bin

##@ Test

test: verify lint test-unit test-api test-e2e ## Everything that must pass, the fast things first

verify: bin/golangci-lint bin/controller-gen bin/crd-ref-docs ## Check that nothing needs `make generate`, `make fmt` or `go mod tidy`
	@rm -rf bin/.verify && mkdir -p bin/.verify && tar -cf - $(GENERATED) | tar -xf - -C bin/.verify
	@$(MAKE) --no-print-directory generate
	@for path in $(GENERATED); do diff -ru bin/.verify/$$path $$path || stale=yes; done; \
		if [ "$$stale" ]; then echo 'Generated files were stale: run `make generate` and commit what it changes.'; exit 1; fi
	@bin/golangci-lint fmt --diff || { echo 'Some files are not formatted: run `make fmt`.'; exit 1; }
	@hack/catalog-data/generate.sh --check
	@go mod tidy -diff || { echo 'go.mod is not tidy: run `go mod tidy`.'; exit 1; }

lint: bin/golangci-lint ## Run the linters
	bin/golangci-lint run

test-unit: ## Run the tests that need nothing
	go test -race $(UNIT_TESTS)

test-api: control-plane ## Run the tests that need an API server
	go test -race $(API_TESTS)

test-e2e: build control-plane test/e2e/peers/node_modules ## Run the tests that need the whole: API server, controllers, the built binaries
	go test -count 1 -p 1 -timeout 30m $(E2E_TESTS)

test/e2e/peers/node_modules: test/e2e/peers/package-lock.json
	npm ci --silent --prefix test/e2e/peers
	@touch $@

##@ Try

control-plane: ## Build the Kubernetes that tests and the demo run on: 15 to 25 minutes once, on two cores
ifeq ($(KUBEBUILDER_ASSETS),$(BUILT_ASSETS))
	@hack/controlplane/build.sh $(BUILT_ASSETS)
endif

demo: build control-plane ## Start it all on this machine and follow one run to its end; KEEP=1 leaves everything up
	@go run ./hack/demo $(if $(KEEP),-keep)

demo-approval: build control-plane ## The same with a write: proposed, shown, approved by another user, made once
	@go run ./hack/demo -approval $(if $(KEEP),-keep)

##@ Deploy to the cluster of the current kubeconfig

install: ## Install the CRDs and the admission policies, and mend those that were altered
	$(KUBECTL) apply --server-side -k config/crd
	$(KUBECTL) apply --server-side -f config/manager/namespace.yaml
	$(KUBECTL) apply --server-side --force-conflicts -k config/admission

# Runs go first, while the operator is there to settle their writes and to charge their children.
delete-runs:
	@if $(KUBECTL) get customresourcedefinitions agentruns.interlock.dev --output name >/dev/null 2>&1; then \
		$(KUBECTL) delete agentruns.interlock.dev --all --all-namespaces --timeout 10m; fi

uninstall: delete-runs ## Remove the CRDs, every run and binding with them, and the admission policies
	$(KUBECTL) delete --ignore-not-found -k config/admission
	$(KUBECTL) delete --ignore-not-found -k config/crd

deploy: ## Install CRDs, admission policies, RBAC and the operator
	$(KUBECTL) apply --server-side --force-conflicts -k config/default

undeploy: delete-runs ## Remove what `make deploy` installed, and every run and binding with it
	$(KUBECTL) delete --ignore-not-found -k config/default

# The tools, each built again when hack/tools/go.mod names another version.

bin/controller-gen: PACKAGE := sigs.k8s.io/controller-tools/cmd/controller-gen
bin/crd-ref-docs: PACKAGE := github.com/elastic/crd-ref-docs
# golangci-lint with the linter for Kubernetes APIs inside.
bin/golangci-lint: PACKAGE := sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter

bin/controller-gen bin/crd-ref-docs bin/golangci-lint: hack/tools/go.mod
	@echo "building $@"
	@go -C hack/tools build -o $(CURDIR)/$@ $(PACKAGE)
	@touch $@

.PHONY: help build run generate docs catalog-data fmt clean test verify lint test-unit test-api test-e2e \
	control-plane demo demo-approval install uninstall deploy undeploy delete-runs
