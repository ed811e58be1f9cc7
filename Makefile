# `make demo` and `make test` set up everything they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help venv demo lint test test-slow bench clean

help:
	@echo "make demo       set up .venv and run the main job (two minutes)"
	@echo "make test       set up .venv, then lint, types, layers, tests, documentation's code, notebooks"
	@echo "make test-slow  the long checks: real data, 8 GB stores, kills"
	@echo "make bench      the benchmark tables"
	@echo "PYTHON=python3.12 make test   uses another interpreter (remove .venv first)"

venv: $(STAMP)

$(STAMP): pyproject.toml deploy/image/constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streamfit needs Python 3.11 or newer, this is " + sys.version.split()[0] + ". Run: make venv PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint deploy/image/constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: venv
	$(BIN)/streamfit demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -m "not slow" -n auto --dist loadfile

test-slow: venv
	$(BIN)/python -m pytest -m slow

bench: venv
	for file in tests/benchmarks/bench_*.py tests/benchmarks/sorted_data.py tests/benchmarks/stream.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
