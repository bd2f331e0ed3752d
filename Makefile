# Targets need Go, make and bash, and npm for the embedded Ruby. A fresh clone has all else.
GO ?= go
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.1.4
GOTESTSUM = gotest.tools/gotestsum@v1.13.0
FLAGS = -trimpath
LDFLAGS = -s -w

.PHONY: build dist site release-check platforms image profile ruby check-image quickstart unit e2e test full lint upstream sizes vulncheck fuzz bench clean

build: image ## the program, as ./bootstrap
	CGO_ENABLED=0 $(GO) build $(FLAGS) -ldflags '$(LDFLAGS)' -o bootstrap .

dist: image ## makes a release in dist: archives, packages, container image; URL=https://… is its address, see .ci/dist
	@GO="$(GO)" FLAGS="$(FLAGS)" LDFLAGS="$(LDFLAGS)" URL="$(URL)" .ci/dist

release-check: check-image ## makes a release of this commit twice, in two folders, and compares the bytes; takes long
	@GO="$(GO)" .ci/dist-check

platforms: image ## builds the program for each system and processor, and runs go vet for macOS and Windows
	@set -e; export CGO_ENABLED=0; for GOOS in linux darwin windows; do export GOOS; for GOARCH in amd64 arm64; do export GOARCH; \
	  echo $$GOOS/$$GOARCH; $(GO) build $(FLAGS) -ldflags '$(LDFLAGS)' -o /dev/null .; done; [ $$GOOS = linux ] || $(GO) vet $(FLAGS) ./...; done

CRUBY = templates/cruby
NPM ?= npm
image: $(CRUBY)/image/about.json ## the Ruby that is embedded; needs npm

$(CRUBY)/image/about.json: templates/driver.rb $(addprefix $(CRUBY)/,cache.go image.go memory.go module.go sections.go shipped.go) $(CRUBY)/package-lock.json $(filter-out %.sum,$(wildcard $(CRUBY)/build/* $(CRUBY)/build/corpus/*))
	@if ! command -v $(NPM) >/dev/null; then \
	  echo "no npm: the program is built without its Ruby, templates will need --ruby PATH" >&2; \
	elif ! (cd $(CRUBY) && $(NPM) ci --loglevel=error >/dev/null); then \
	  echo "npm cannot fetch Ruby: the program is built without it, templates will need --ruby PATH" >&2; \
	else \
	  echo "building the Ruby that is embedded"; \
	  CGO_ENABLED=0 $(GO) run $(FLAGS) ./$(CRUBY)/build; \
	fi

profile: image ## chooses which functions of Ruby have machine code in the program, from templates/cruby/build/corpus
	CGO_ENABLED=0 $(GO) run $(FLAGS) ./$(CRUBY)/build -profile

ruby: ## moves to the Ruby that npm has as RUBY=4.1: fetches it, chooses its functions that have machine code, and makes the image
	cd $(CRUBY) && $(NPM) pkg delete dependencies && $(NPM) install --save-exact --loglevel=error @ruby/$(RUBY)-wasm-wasi
	$(MAKE) profile

check-image: image ## compares the image with build/image.sum, and makes its machine code again and compares it; CHECK=-profile builds everything again
	CGO_ENABLED=0 $(GO) run $(FLAGS) ./$(CRUBY)/build -check $(CHECK)

SITE ?= dist/site
site: ## the documentation as a static site, in dist/site; a dead link is an error
	CGO_ENABLED=0 $(GO) run -C .ci/site $(FLAGS) . ../.. $(abspath $(SITE))

quickstart: build ## one VM on this machine, serving a page
	./bootstrap deploy testdata/quickstart/manifest.yml
	@echo
	@echo "The page: http://127.0.0.1:8787/"

# Most tests wait, so more tests than cores run at the same time.
unit: image ## the tests of each package and of the layout; without e2e, without compiling Ruby, without the race detector
	CGO_ENABLED=0 $(GO) test -short -parallel 8 $$($(GO) list ./... | grep -v '/e2e$$')

e2e: image ## the tests that run the program; SCRIPT=name runs one of testdata/script
	$(GO) test -count=1 ./e2e $(if $(SCRIPT),-run '^TestScript$$/^$(SCRIPT)$$')

test: image ## all tests, with the race detector; see .ci/test for flaky ones
	@GO="$(GO)" .ci/test $(GOTESTSUM) -race -timeout 40m $(TESTFLAGS)

full: image ## all tests again and again, every kill and fault, and the fuzzers for minutes each
	$(GO) test -race -count=3 -timeout 90m ./...
	PLACES=all $(GO) test -count=1 -v -timeout 2h ./state/places
	CRASH=all REMOVED=all MATRIX=300 SOAK=200 ROTATE=60 FLEET=600 DEPLOYMENT=600 $(GO) test -count=1 -v -timeout 12h -run 'TestCrash|TestRemoved|TestDeploymentCrash|TestErrandCrash|TestFaults|TestPlanIsWhatIsDone|TestDowntime|TestSoak|TestRotateRandom|TestFleetChaos|TestDeploymentChaos|TestWorkersChaos' ./e2e
	$(MAKE) fuzz FUZZTIME=2m
	$(MAKE) check-image CHECK=-profile

# The module in .ci/lint pins the versions of the linters. With the flags of make build,
# they reuse the packages that it has compiled.
lint: export CGO_ENABLED = 0
lint: export GOFLAGS := $(shell $(GO) env GOFLAGS) $(FLAGS)
lint: ## go vet, gofmt, staticcheck, functions that only tests call, gosec
	$(GO) vet ./...
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt-ed: $$unformatted"; exit 1; }
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) build -C .ci/lint -o "$$dir/" tool ./gosec && \
	{ echo staticcheck ./...; "$$dir/staticcheck" ./... || exit; } && \
	{ unreached=$$("$$dir/deadcode" . ./e2e/traced ./cmd/pages ./$(CRUBY)/build) && [ -z "$$unreached" ] || { echo "no program calls:"; echo "$$unreached"; exit 1; }; } && \
	{ echo gosec ./...; "$$dir/gosec" .ci/lint/gosec/config.json .; }

upstream: ## what is new in the public repositories since the commits in docs/compatibility.md; needs the network
	@.ci/upstream

sizes: ## the largest types and packages
	@$(GO) test -count=1 -v -run TestSizes .

vulncheck: ## looks up known vulnerabilities of the libraries; needs the network
	$(GO) run $(GOVULNCHECK) ./...

FUZZTIME ?= 10s
fuzz: ## runs every fuzz target for FUZZTIME, two at a time; see .ci/fuzz
	@GO="$(GO)" FUZZTIME=$(FUZZTIME) .ci/fuzz

bench: image ## the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

clean: ## removes what build and dist made
	rm -rf bootstrap dist
