# What there is to do here. `make` alone lists it.
#
# Everything runs from a fresh clone: scripts/setup installs missing tools first.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run cells demo inspect migrate test lint bench quality load generate fmt fuzz crash failover mutations past calls release image

TOOL := go tool -modfile=tools/go.mod
GO_FILES = $(shell find . -name '*.go' -not -path '*/node_modules/*' -not -path './.local/*')

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# Built and then run, not `go run`: that would not pass a SIGTERM on, and the server would stay.
run: ## set up missing tools, then run everything: Postgres, API, workers, an offline model
	@scripts/setup run
	@go build -o .local/bin/ ./cmd/throughline-dev ./cmd/throughline
	@exec .local/bin/throughline-dev dev

cells: ## run two cells behind HAProxy: who lives where, and a command that moves a user
	@scripts/setup run
	@scripts/setup cells
	@go build -o .local/bin/ ./cmd/throughline-dev ./cmd/throughline
	@LOG_LEVEL=$${LOG_LEVEL:-warn} exec .local/bin/throughline-dev cells # the strip stays readable

demo: ## play a long conversation through the running system (CONVERSATION=file for your own)
	@test -x .local/bin/throughline-dev || go build -o .local/bin/ ./cmd/throughline-dev
	@.local/bin/throughline-dev demo $(if $(CONVERSATION),--conversation "$(CONVERSATION)")

inspect: ## show what a chat's memory holds (CHAT=uuid), or list the latest chats
	@scripts/inspect $(CHAT)

migrate: ## apply pending migrations to DATABASE_DIRECT_URL, or DATABASE_URL
	@go run ./cmd/throughline migrate

test: ## set up missing tools, then the tests: Go, pgTAP, the client libraries (CI adds more: .ci/run)
	@scripts/setup test
	@scripts/test

lint: ## check formatting, golangci-lint with vet and the architecture's arrows, generated queries, known vulnerabilities
	@unformatted=$$(gofmt -l $(GO_FILES)); test -z "$$unformatted" || { echo "not gofmt-clean (make fmt): $$unformatted" >&2; exit 1; }
	$(TOOL) golangci-lint run
	$(TOOL) sqlc diff -f sql/sqlc.yaml
	scripts/vulncheck

bench: ## measure the program as shipped and stripped (ONLY=stream,cost RUNS=n; DOC=1 writes the figures into README.md and docs)
	@scripts/setup run
	@go run ./internal/proof/bench $(if $(ONLY),-only $(ONLY)) $(if $(RUNS),-runs $(RUNS)) $(if $(DOC),-doc)

quality: ## the worth of memory: recall, topics, kept and forgotten facts (ONLY=recall,junk LOCOMO=file LONGMEMEVAL=file; DOC=1 writes the docs)
	@scripts/setup run
	@go run ./internal/proof/quality $(if $(ONLY),-only $(ONLY)) $(if $(LOCOMO),-locomo "$(LOCOMO)") \
		$(if $(LONGMEMEVAL),-longmemeval "$(LONGMEMEVAL)") $(if $(DOC),-doc)

load: ## many people talk at once for an hour (DURATION=5m, CHATS=n): leaks, rows, queues; fails on leftovers (DOC=1 writes the docs)
	@scripts/setup run
	@go run ./internal/proof/load $(if $(DURATION),-duration $(DURATION)) $(if $(CHATS),-chats $(CHATS)) $(if $(OUT),-out "$(OUT)") $(if $(DOC),-doc)

crash: ## kill servers, workers and Postgres while people talk, then check everything (ROUNDS=20 SEED=…; DOC=1 writes the docs)
	@scripts/setup run
	@go run ./internal/proof/crash -rounds $(or $(ROUNDS),20) $(if $(SEED),-seed $(SEED)) $(if $(DOC),-doc)

failover: ## kill the primary under talk, promote its standby, rewind the old one (ROUNDS=3 SEED=…); then once without all turns (DOC=1)
	@scripts/setup run
	@scripts/setup cells
	@go run ./internal/proof/crash -failover -rounds $(or $(ROUNDS),3) $(if $(SEED),-seed $(SEED)) $(if $(DOC),-doc)
	@go run ./internal/proof/crash -failover -async -rounds 1 $(if $(SEED),-seed $(SEED))

mutations: ## break the program on purpose, one patch at a time, and see that make crash notices (ONLY=name; DOC=1 writes the docs)
	@scripts/setup run
	@go run ./internal/proof/crash -mutations $(if $(ONLY),-only $(ONLY)) $(if $(DOC),-doc)

past: ## change the past of chats: random histories, words taken back under kills, races (HISTORIES=10000 CANARIES=500 RACES=1000)
	@scripts/setup test
	@go build -o .local/bin/withpg ./internal/testkit/withpg
	@.local/bin/withpg -pg 15 -- go test -vet=off -timeout 10h -v ./internal/proof/past -args -histories $(or $(HISTORIES),10000)
	@.local/bin/withpg -pg 15 -- go test -vet=off -timeout 10h -v ./internal/proof/people -run 'TestWordsTakenBack|TestOneWinner' \
		-args -canaries $(or $(CANARIES),500) -races $(or $(RACES),1000)

calls: ## replies with tools: kills at 12 points, waiting, both wires, faults, cuts (ROUNDS=200 WAITING=1000 RANDOM=60; DOC=1 writes the docs)
	@scripts/setup test
	@go build -o .local/bin/withpg ./internal/testkit/withpg
	@.local/bin/withpg -pg 15 -- go test -vet=off -timeout 10h -v ./internal/proof/tools -args -rounds $(or $(ROUNDS),200) \
		-waiting $(or $(WAITING),1000) -scripts $(or $(RANDOM),60) -faults 200 -cuts 200 $(if $(DOC),-doc)

fuzz: ## feed every decoder odd bytes, each fuzz target for FUZZTIME (30s) in turn (ONLY=regular expression)
	@FUZZTIME=$(or $(FUZZTIME),30s) scripts/fuzz $(if $(ONLY),'$(ONLY)')

generate: ## write the Go code of the queries in sql/queries
	$(TOOL) sqlc generate -f sql/sqlc.yaml

fmt: ## format the Go code
	@gofmt -w $(GO_FILES)

release: ## build the archives of the checked-out tag, with checksums and bills of materials, into .local/release
	@scripts/release

image: ## build the container image (DOCKER=podman, IMAGE=name)
	$(or $(DOCKER),docker) build -t $(or $(IMAGE),throughline:latest) \
		--build-arg VERSION=$$(git describe --tags --always --dirty) --build-arg REVISION=$$(git rev-parse HEAD) .
