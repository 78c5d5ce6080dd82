# `make demo` and `make test` need nothing but python3 (3.11 or newer) with venv, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AUDIT := .audit
ARGS ?=

.PHONY: demo test lint unit pages-check bench fuzz faults threats lock audit llm messages clean

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

# Every kind of page in every language, theme and width; the tests above take turns. Ten minutes on two cores.
pages-check: $(VENV)/.dev
	$(BIN)/python tools/browser.py --install-only
	$(BIN)/python tools/htmlcheck.py --install-only
	TOUCHSTONE_PAGES=all $(BIN)/pytest tests/browser/test_pages.py --timeout 3600 $(ARGS)

# How fast everything is, beside floor programs; `make bench ARGS="--only startup"`. Half an hour on two cores.
bench: $(VENV)/.dev
	$(BIN)/python tools/browser.py --install-only
	$(BIN)/python -m benchmarks $(ARGS)

# Hostile input for a minute each: `make fuzz ARGS="--only stream --seconds 3600"`. Needs a wheel of atheris.
fuzz: $(VENV)/.run
	$(BIN)/python -m fuzz $(ARGS)

# Every test that docs/threats.md names.
threats: $(VENV)/.dev
	$(BIN)/python tools/browser.py --install-only
	$(BIN)/pytest $(ARGS) $$(grep -o 'tests/[a-z_/]*\.py::[a-z0-9_]*' docs/threats.md | sort -u)

# requirements.lock: what users get at the moment, every version with its hashes, for all systems.
lock: $(AUDIT)/.ready
	$(AUDIT)/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --upgrade \
		--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" --quiet \
		--output-file requirements.lock

# Asks pypi.org for known vulnerabilities of all that is locked; without that service it fails, hence no part of `test`.
audit: $(AUDIT)/.ready
	$(AUDIT)/bin/pip-audit --strict --progress-spinner off --disable-pip --require-hashes -r requirements.lock
	$(AUDIT)/bin/pip-audit --strict --progress-spinner off --disable-pip --no-deps -r requirements-dev.txt

# Kills, full disks, jumping clocks, at full length: hours. `make faults ARGS="-k test_killed_at_any_moment"`
faults: $(VENV)/.dev
	TOUCHSTONE_FAULTS=long $(BIN)/pytest tests/faults --timeout 36000 $(ARGS)

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

$(AUDIT)/.ready: Makefile
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/pip install --quiet --disable-pip-version-check pip-audit==2.10.1 uv==0.13.9
	touch $@

clean:
	rm -rf $(VENV) $(AUDIT) .llm .bench .fuzz .htmlcheck .touchstone .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build
