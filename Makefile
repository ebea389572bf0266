# What there is to do here. `make` alone lists it.
#
# Everything runs from a fresh clone: scripts/setup installs what is missing first.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run demo inspect migrate test lint bench generate fmt

TOOL := go tool -modfile=tools/go.mod
GO_FILES = $(shell find . -name '*.go' -not -path '*/node_modules/*' -not -path './.local/*')

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# Built and then run, not `go run`: that would not pass a SIGTERM on, and the server would stay.
run: ## set up what is missing, then run everything: Postgres, API, workers, an offline model
	@scripts/setup run
	@go build -o .local/bin/throughline ./cmd/throughline
	@exec .local/bin/throughline dev

demo: ## play a long conversation through the running system (CONVERSATION=file for your own)
	@go run ./cmd/throughline demo $(if $(CONVERSATION),--conversation "$(CONVERSATION)")

inspect: ## show what a chat's memory holds (CHAT=uuid), or list the latest chats
	@go run ./cmd/throughline inspect $(if $(CHAT),--chat "$(CHAT)")

migrate: ## apply pending migrations to DATABASE_URL
	@go run ./cmd/throughline migrate

test: ## set up what is missing, then every test: Go with -race on Postgres 15 and 17, pgTAP on both
	@scripts/setup test
	@scripts/test

lint: ## check formatting, vet, golangci-lint with the architecture's arrows, generated queries
	@unformatted=$$(gofmt -l $(GO_FILES)); test -z "$$unformatted" || { echo "not gofmt-clean (make fmt): $$unformatted" >&2; exit 1; }
	go vet ./...
	$(TOOL) golangci-lint run
	$(TOOL) sqlc diff -f sql/sqlc.yaml

bench: ## run the benchmarks beside their baselines
	@scripts/setup run
	@go run ./internal/bench

generate: ## write the Go code of the queries in sql/queries
	$(TOOL) sqlc generate -f sql/sqlc.yaml

fmt: ## format the Go code
	@gofmt -w $(GO_FILES)
