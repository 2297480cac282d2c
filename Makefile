# make run   set up what the main job needs, then train EBU on the embedded MNIST maze
# make test  set up everything, then lint, types and tests
# make test-slow  the tests that take longer than the default run allows
# make bench side-by-side measurements, printed as ratios; ARGS=--save keeps them in results/
# make results  docs/results.md, the README's table and its picture from the rows in results/

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
EXTRAS := classic,atari,minatar,minigrid,video,ray

.PHONY: run test test-slow bench results lint types clean

run: $(VENV)/.run
	$(BIN)/ebu train $(ARGS)

test: $(VENV)/.test lint types
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow $(ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check ebu tests bench scripts examples

types: $(VENV)/.test
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/python -m bench $(ARGS)

results: $(VENV)/.run
	$(BIN)/python scripts/results.py

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) -e ".[$(EXTRAS),dev]"
	touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
