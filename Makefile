# Every target makes and fills .venv when it has to. PYTHON=/path/to/python overrides the search for an interpreter.

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

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) ## make .venv, install everything, compile the kernels once

demo: $(RUN) ## who can read what, why, and what to revoke; on the local engine, then on Spark where Java 17 is there
	@$(BIN)/upshot demo

test: $(DEV) ## every suite, a few at a time, with its budget and its time
	@$(BIN)/python tests/run_suites.py

check: $(DEV) ## format, lint, types, layers, fast tests; under two minutes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(BIN)/python tests/run_suites.py --fast

bench: $(DEV) $(PATHWAY) ## Upshot and its peers on the same data in the same run
	@$(BIN)/python -m bench $(BENCH)

serve: $(RUN) ## the monitoring service over the example of dependencies; PORT=8000, its store in .serve
	@echo "http://127.0.0.1:$(PORT)/ serves examples/dependencies.dl, kept in .serve; Ctrl-C ends it" >&2
	@$(BIN)/upshot serve examples/dependencies.dl --files examples/facts/dependencies --store .serve --port $(PORT)

soak: $(DEV) ## random cases for MINUTES=60, a new seed each round; MINUTES=0: every suite once, with large counts
	@$(BIN)/python tests/run_suites.py --soak --minutes $(MINUTES)

system: $(RUN) ## install the system packages that the suites use, or say which are missing
	@sh tests/system_packages.sh

docs: $(DEV) ## build the documentation as a site in build/site, check every link, run every example
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo "build/site/index.html"
	@$(BIN)/python tests/run_suites.py docs docstrings

# ---- environments --------------------------------------------------------------------------------

$(BIN)/python:
	@found=""; \
	for candidate in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found="$$candidate"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Upshot needs Python 3.11 or newer; found: $$(python3 --version 2>&1 || echo none)." >&2; \
	  echo "Install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	echo "making $(VENV) with $$($$found --version)"; "$$found" -m venv $(VENV)

$(RUN): pyproject.toml | $(BIN)/python
	@echo "installing Upshot into $(VENV)"
	@$(BIN)/python $(PIP) install --editable '.[service,spark]' || { \
	  echo "Spark could not be installed: it is left out"; $(BIN)/python $(PIP) install --editable '.[service]'; }
	@echo "compiling the kernels, once"
	@$(BIN)/python -m upshot.engine.local.warm
	@$(BIN)/python -m compileall -q src
	@touch $@

# The versions that all tests passed with: a release of a dependency does not turn `make test` red from one day to the
# next. CONTRIBUTING.md says how to take the newest.
$(DEV): $(RUN) tests/versions.txt
	@echo "installing the tools of development"
	@$(BIN)/python $(PIP) install --editable '.[dev,bench,service,spark]' --constraint tests/versions.txt || { \
	  echo "tests/versions.txt does not fit this Python: the newest versions are installed"; \
	  $(BIN)/python $(PIP) install --editable '.[dev,bench,service,spark]'; }
	@touch $@

# Pathway pins other versions of packages that Upshot uses, so it lives in its own environment; without it the benchmark
# says "not installed" in its place.
$(PATHWAY): bench/pathway-requirements.txt | $(BIN)/python
	@echo "installing Pathway into .venv-pathway"
	@$(BIN)/python -m venv .venv-pathway
	@.venv-pathway/bin/python $(PIP) install -r $< && touch $@ || echo "Pathway could not be installed: it is left out"
