# `make demo` and `make test` need nothing but python3 (3.11 or newer) with venv, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: demo test lint unit bench fuzz llm messages clean

demo: $(VENV)/.run
	$(BIN)/touchstone demo $(ARGS)

test: lint unit

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.dev
	$(PYTHON) tools/llm_server.py --install-only
	$(BIN)/python tools/browser.py --install-only
	$(BIN)/python tools/htmlcheck.py --install-only
	$(BIN)/pytest -n 2 --dist loadfile $(ARGS)

# How fast everything is, beside floor programs; `make bench ARGS="--only startup"`. Half an hour on two cores.
bench: $(VENV)/.dev
	$(BIN)/python tools/browser.py --install-only
	$(BIN)/python -m benchmarks $(ARGS)

# Hostile input for a minute each: `make fuzz ARGS="--only stream --seconds 3600"`. Needs a wheel of atheris.
fuzz: $(VENV)/.run
	$(BIN)/python -m fuzz $(ARGS)

# A small real model on http://127.0.0.1:18101, for trying things out.
llm:
	$(PYTHON) tools/llm_server.py $(ARGS)

# New sentences go into the catalogs; what is still to be translated is left empty, and a test says so.
messages: $(VENV)/.dev
	$(BIN)/pybabel -q extract -F babel.cfg -k _ -k n_:1,2 --no-location --sort-output -o messages.pot .
	$(BIN)/pybabel -q update -D touchstone -i messages.pot -o touchstone/locale/de/touchstone.po -l de \
		--no-fuzzy-matching --ignore-obsolete --omit-header
	rm messages.pot

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) .llm .bench .fuzz .htmlcheck .touchstone .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build
