# Every target creates .venv and installs into it if needed. PYTHON=/path/to/python overrides the search for an interpreter.

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench serve soak system docs
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000
MINUTES ?= 60
RUN := $(VENV)/.filled-for-run
DEV := $(VENV)/.filled-for-development
PATHWAY := .venv-pathway/.filled
PIP := -m pip --disable-pip-version-check --quiet

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) ## create .venv, install everything, compile the kernels

demo: $(RUN) ## run the permissions demo on the local engine, then on Spark if Java 17 is installed
	@echo "starting the demo: loading the kernels" >&2
	@$(BIN)/upshot demo

test: $(DEV) ## run every test suite, a few at a time, each with a time limit
	@$(BIN)/python -m tests.run_suites

check: $(DEV) ## check format, lint, types and layers, run the fast tests; under two minutes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(BIN)/python -m tests.run_suites --fast

bench: $(DEV) $(PATHWAY) ## compare Upshot with its peers on the same data in the same run
	@$(BIN)/python -m bench $(BENCH)

serve: $(RUN) ## serve the dependencies example; PORT=8000, database directory .serve
	@echo "http://127.0.0.1:$(PORT)/ serves examples/dependencies.dl, stored in .serve; Ctrl-C stops it" >&2
	@$(BIN)/upshot serve examples/dependencies.dl --files examples/facts/dependencies --store .serve --port $(PORT)

soak: $(DEV) ## run random cases for MINUTES=60, a new seed each round; MINUTES=0 runs every suite once with large counts
	@$(BIN)/python -m tests.run_suites --soak --minutes $(MINUTES)

system: $(RUN) ## install the system packages of the test suites, or list the missing ones
	@sh tests/system_packages.sh

docs: $(DEV) ## build the documentation in build/site, check every link, run every example
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo "build/site/index.html"
	@$(BIN)/python -m tests.run_suites docs

# ---- environments --------------------------------------------------------------------------------

$(BIN)/python:
	@found=""; \
	for candidate in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Upshot needs Python 3.11 or newer; found: $$(python3 --version 2>&1 || echo none)." >&2; \
	  echo "install it, or set its path: make setup PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	echo "creating $(VENV) with $$($$found --version)"; "$$found" -m venv $(VENV)

$(RUN): pyproject.toml | $(BIN)/python
	@echo "installing Upshot, the service and Spark into $(VENV); the first time this downloads packages for a few minutes"
	@$(BIN)/python $(PIP) install --editable '.[service,spark]' || { \
	  echo "Spark could not be installed; continuing without it"; $(BIN)/python $(PIP) install --editable '.[service]'; }
	@echo "compiling the kernels to machine code; this takes about half a minute"
	@$(BIN)/python -m upshot.engine.local.warm
	@$(BIN)/python -m compileall -q src
	@touch $@

# Pinned versions: a new release of a dependency cannot break `make test`. CONTRIBUTING.md explains how to upgrade.
$(DEV): $(RUN) tests/versions.txt
	@echo "installing the development tools"
	@$(BIN)/python $(PIP) install --editable '.[dev,bench,service,spark]' --constraint tests/versions.txt || { \
	  echo "tests/versions.txt does not support this Python; installing the newest versions"; \
	  $(BIN)/python $(PIP) install --editable '.[dev,bench,service,spark]'; }
	@touch $@

# Pathway pins other versions of Upshot's dependencies, so it has its own environment. Without it the benchmark reports
# "not installed".
$(PATHWAY): bench/pathway-requirements.txt | $(BIN)/python
	@echo "installing Pathway into .venv-pathway"
	@$(BIN)/python -m venv .venv-pathway
	@.venv-pathway/bin/python $(PIP) install -r $< && touch $@ || echo "Pathway could not be installed; continuing without it"
