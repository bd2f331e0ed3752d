# Every target works on a fresh clone with Go and make, and npm for the Ruby that
# is embedded; deploys want a bash beside them.
GO ?= go
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.1.4
GOTESTSUM = gotest.tools/gotestsum@v1.13.0
FLAGS = -trimpath
LDFLAGS = -s -w

.PHONY: build dist site dist-check image profile check-image quickstart unit e2e test full lint sizes vulncheck fuzz bench clean

build: image ## the program, as ./bootstrap
	CGO_ENABLED=0 $(GO) build $(FLAGS) -ldflags '$(LDFLAGS)' -o bootstrap .

dist: image ## a release in dist: archives, packages, container image; URL=https://… is where it will be, see .ci/dist
	@GO="$(GO)" FLAGS="$(FLAGS)" LDFLAGS="$(LDFLAGS)" URL="$(URL)" .ci/dist

dist-check: ## that two releases of this commit, made in two folders, have the same bytes; takes long
	@GO="$(GO)" .ci/dist-check

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

profile: image ## which functions of Ruby have machine code in the program, from templates/cruby/build/corpus
	CGO_ENABLED=0 $(GO) run $(FLAGS) ./$(CRUBY)/build -profile

check-image: image ## that the image is what build/image.sum says and its machine code the same when it is made again; CHECK=-profile builds all again
	CGO_ENABLED=0 $(GO) run $(FLAGS) ./$(CRUBY)/build -check $(CHECK)

SITE ?= dist/site
site: ## the documentation as a static site, in dist/site; a dead link is an error
	$(GO) run -C .ci/site . ../.. $(abspath $(SITE))

quickstart: build ## one VM on this machine, serving a page
	./bootstrap deploy testdata/quickstart/manifest.yml
	@echo
	@echo "The page: http://127.0.0.1:8787/"

# Many tests wait, so that more run at a time than there are cores, the slowest first.
# Compilers and linkers get memory rather than time, as in .ci/run.
unit: image ## the tests of each package and of the layout, without whole runs, compiling Ruby, the race detector and vet
	@CGO_ENABLED=0 GOGC=off GOMEMLIMIT=1GiB .ci/memory 2 $(GO) test -short -vet=off -ldflags='-s -w' -exec 'env -u GOGC -u GOMEMLIMIT' -p 5 -parallel 8 \
	  ./state/team ./templates ./cpi/local ./agent/local ./addresses ./fleet/queue $$($(GO) list ./... | grep -v '/e2e$$')

e2e: image ## the tests that run the program; SCRIPT=name runs one of testdata/script
	$(GO) test -count=1 ./e2e $(if $(SCRIPT),-run '^TestScript$$/^$(SCRIPT)$$')

test: image ## all tests, with the race detector; see .ci/test for flaky ones
	@GO="$(GO)" FLAGS="$(FLAGS)" .ci/test $(GOTESTSUM) -race -timeout 20m $(TESTFLAGS)

full: image ## all tests again and again, every cut and fault, and the fuzzers for minutes each
	$(GO) test -race -count=3 -timeout 90m ./...
	CRASH=all MATRIX=300 SOAK=200 ROTATE=60 FLEET=600 $(GO) test -count=1 -v -timeout 12h -run 'TestCrash|TestFaults|TestPlanIsWhatIsDone|TestDowntime|TestSoak|TestRotateRandom|TestFleetChaos|TestWorkersChaos' ./e2e
	$(MAKE) fuzz FUZZTIME=2m
	$(MAKE) check-image CHECK=-profile

# .ci/lint has the versions of the tools; they share libraries that are large to compile.
lint: ## go vet, gofmt, staticcheck, functions that only tests call, gosec
	$(GO) vet ./...
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt-ed: $$unformatted"; exit 1; }
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && $(GO) build -C .ci/lint -o "$$dir/" tool ./gosec && \
	{ echo staticcheck ./...; "$$dir/staticcheck" ./... || exit; } && \
	{ unreached=$$("$$dir/deadcode" . ./e2e/traced ./cmd/pages ./$(CRUBY)/build) && [ -z "$$unreached" ] || { echo "no program calls:"; echo "$$unreached"; exit 1; }; } && \
	{ echo gosec ./...; "$$dir/gosec" .ci/lint/gosec/config.json .; }

sizes: ## the largest types and packages
	@$(GO) test -count=1 -v -run TestSizes .

vulncheck: ## known vulnerabilities of what is used; asks the database on the net
	$(GO) run $(GOVULNCHECK) ./...

FUZZTIME ?= 10s
fuzz: ## every fuzz target for FUZZTIME, two at a time; see .ci/fuzz
	@GO="$(GO)" FUZZTIME=$(FUZZTIME) .ci/fuzz

bench: image ## the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

clean: ## what build and dist made
	rm -rf bootstrap dist
