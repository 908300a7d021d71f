# Octavo for people in a hurry: `make demo` or `make test` on a machine that has Python and a network, nothing else.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
PINS   := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help open demo test lint format types docs links dist release clean

help:
	@echo "make open     do everything in the browser: drop a text, train, watch, play with the model (ARGS=FOLDER)"
	@echo "make demo     train a small GPT on stories made on the spot, and read what it writes"
	@echo "make test     run the tests (ARGS='tests/unit -x' for some of them)"
	@echo "make lint     check style with ruff          make format   let ruff put it right"
	@echo "make types    check types with pyrefly       make clean    remove .venv and caches (runs/ stays)"
	@echo "make docs     build the documentation as a site that needs no network: build/site/index.html"
	@echo "make links    list each link of the documentation to another site that does not answer"
	@echo "make dist     build the source distribution and the wheels of all platforms into dist/ (ARGS=--twice: compare)"
	@echo "make release  check everything that has to hold before a version is published; publishes nothing"
	@echo "PYTHON=python3.12 make demo                  choose the Python that .venv is made with"

open: $(VENV)/installed-open
	$(BIN)/octavo open $(ARGS)

demo: $(VENV)/installed
	$(BIN)/octavo demo $(ARGS)

# Files in the order of their folders: the long ones of tests/e2e come early, so that no core waits for them at the end.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/installed-dev
	$(BIN)/pyrefly check

docs: $(VENV)/installed-dev
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs . build/site

links: $(VENV)/installed-dev
	$(BIN)/python -m sphinx -Q -b linkcheck -D linkcheck_timeout=10 -D linkcheck_retries=1 -c docs . build/links

dist: build/release/installed
	build/release/bin/python packaging/packages.py $(ARGS)

release: build/release/installed
	build/release/bin/python packaging/release.py $(ARGS)

build/release/installed: packaging/requirements.txt constraints.txt
	$(PYTHON) -m venv build/release
	build/release/bin/python -m pip install --disable-pip-version-check -c constraints.txt -r packaging/requirements.txt
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps say what .venv holds; pip runs again only when what is to be installed has changed.
$(VENV)/installed: $(PINS) | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/installed-open: $(PINS) | $(BIN)/python
	$(PIP) -e '.[serve]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-dev: $(PINS) | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/installed

$(BIN)/python:
	@command -v $(PYTHON) > /dev/null || { echo "There is no '$(PYTHON)' here. Install Python 3.11 to 3.14, or name yours: PYTHON=/path/to/python make ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || { \
	  echo "Octavo needs Python 3.11 to 3.14; $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another: PYTHON=python3.12 make ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "$(PYTHON) could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
