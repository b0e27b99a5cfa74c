# Everything happens in .venv, which the first command makes.
# With another interpreter: make demo PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test lint format docs serve reference clean

help:
	@echo "make demo       train damcha and mha on the built-in digits and compare them"
	@echo "make test       run the tests"
	@echo "make lint       ruff, mypy and the import layers"
	@echo "make format     let ruff put the code in order"
	@echo "make docs       build the documentation into site/"
	@echo "make serve      show the documentation while it is being written"
	@echo "make reference  write the generated pages of docs/reference/ again"
	@echo "make clean      remove .venv, site/, dist/ and caches (never runs/ or data/)"

# The two runs are made anew each time, side by side on one core each; no other run is touched.
demo: $(VENV)/.installed
	rm -rf runs/demo-damcha runs/demo-mha
	$(MAKE) --no-print-directory -j2 demo-train-damcha demo-train-mha
	$(BIN)/damcha eval runs/demo-damcha --split test --json > runs/demo-damcha/test.json
	$(BIN)/damcha eval runs/demo-mha --split test --json > runs/demo-mha/test.json
	$(BIN)/damcha reconstruct runs/demo-damcha --split test > /dev/null
	@$(BIN)/python scripts/demo_table.py runs/demo-damcha runs/demo-mha

# Two bars cannot share a terminal: TERM=dumb asks for a plain line an epoch.
demo-train-%: $(VENV)/.installed
	TERM=dumb $(BIN)/damcha train --task digits --attention $* --name demo-$* > /dev/null

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

export NO_MKDOCS_2_WARNING := 1

docs: $(VENV)/.installed-dev
	$(BIN)/mkdocs build --strict

serve: $(VENV)/.installed-dev
	$(BIN)/mkdocs serve

reference: $(VENV)/.installed-dev
	$(BIN)/python scripts/build_reference.py

clean:
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# An environment that is there is used as it is, so a torch chosen by hand stays.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("DAMCHA needs Python 3.10 or newer, this is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install -e ".[dev]"
	@touch $@ $(VENV)/.installed
