# The commands of a working day. "make" lists them.

export CGO_ENABLED = 0

COUNT ?= 20000
KILLS ?= 50
OUT ?= out

SEEDS ?= 2000

.PHONY: help check test race sim long bench demo

help: ## list these targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

check: ## everything that has to pass before a change is taken, as CI runs it
	.ci/run

test: ## all tests; with a real Kafka where Java and Maven are found
	go test ./...

race: ## short tests under the race detector, without a real Kafka; needs a C compiler
	CGO_ENABLED=1 MILLRACE_KAFKA=off MILLRACE_REQUIRE_KAFKA= go test -race -short ./...

sim: ## the simulation, both layers: make sim SEEDS=10000; docs/simulation.md says how to play a seed again
	MILLRACE_SIM_SEEDS=$(SEEDS) go test -tags synctests -timeout 12h -count 1 ./internal/sim

long: ## the seeded tests with many more seeds, and many more kills: make long COUNT=50000 KILLS=200
	MILLRACE_MODEL_SEEDS=$(COUNT) MILLRACE_WINDOWED_KEYS=1000000 MILLRACE_KILLS=$(KILLS) MILLRACE_REQUIRE_KAFKA=1 go test -timeout 12h -count 1 ./...

bench: ## the benchmark against Kafka Streams, on a quiet machine; the report goes into OUT: see bench/README.md
	mkdir -p $(OUT) && bench/run --json $(OUT)/bench.json

demo: ## a month of flights through the demo topology, into OUT (out)
	go run ./cmd/millrace demo --once --out $(OUT)
