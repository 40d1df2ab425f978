# `make help` lists what there is. Everything happens in .venv, made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
.PHONY: help setup demo reproduce-multi30k test test-all test-gpu docs lint types release clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(VENV)/.installed  ## install the package into .venv

demo: $(VENV)/.installed  ## train, evaluate and try a tiny model (5 minutes on a CPU core with bf16)
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/demo.sh

reproduce-multi30k: $(VENV)/.installed  ## train and score the README's Multi30k model (an hour or two on a CPU)
	@PATH="$(CURDIR)/$(BIN):$$PATH" DATA="$(DATA)" bash scripts/reproduce_multi30k.sh

test: $(VENV)/.installed-test  ## the default test suite
	$(BIN)/python -m pytest

test-all: $(VENV)/.installed-test-all  ## all tests, the slow ones too, with other random examples
	HYPOTHESIS_PROFILE=default $(BIN)/python -m pytest -m ""

test-gpu: $(VENV)/.installed-test  ## the tests of tests/gpu, on this machine's GPUs
	SEQ2SEQ_TEST_DEVICE=cuda $(BIN)/python -m pytest -n 0 -m gpu tests/gpu

docs: $(VENV)/.installed-docs  ## the site, into build/docs (open index.html)
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs

lint: $(VENV)/.installed-dev  ## ruff
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev  ## mypy, strict
	$(BIN)/mypy

release: $(VENV)/.installed-dev  ## wheel, source archive and image into dist, checked and tried
	bash scripts/maintain/release.sh $(BIN)/python

clean:  ## remove .venv and caches (never runs/)
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $$($(PYTHON) --version) is too old: seq2seq needs Python 3.11 or newer." \
	    "Name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One rule for each set of extras; installed again only when pyproject.toml changes.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-test-all: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[test,ray]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[docs]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -e '.[dev]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test
