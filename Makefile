# make run   set up what the main job needs, then train EBU on the embedded MNIST maze
# make test  set up everything, then lint, types and tests
# make test-slow  the tests that take longer than the default run allows
# make test-lowest  the tests with the lowest versions pyproject.toml allows (PYTHON=python3.11); test-newest: the newest there are
# make test-matrix  the tests under other instructions, thread counts, orders, with busy cores and a slow disk
# make bench side-by-side measurements, printed as ratios; ARGS=--save keeps them in results/
# make docs  the documentation as a site in site/; nothing is loaded from the network
# make results  docs/results.md, the README's table and its picture from the rows in results/

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
EXTRAS := classic,box2d,atari,minatar,minigrid,video,ray
NEIGHBOURS := sb3,tune,share,minari,onnx

.PHONY: run test test-slow test-lowest test-newest test-matrix bench docs results lint types clean

run: $(VENV)/.run
	$(BIN)/ebu train $(ARGS)

test: $(VENV)/.test lint types
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow $(ARGS)

# Several GB each: PyPI's builds of PyTorch for Linux bring CUDA along. docs/versions.md says when these ran last.
test-lowest:
	$(PYTHON) -m venv --clear .venv-lowest
	$(PYTHON) scripts/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet -c .venv-lowest/constraints.txt -e ".[$(EXTRAS),dev]"
	.venv-lowest/bin/python -m pytest -n 2 --dist loadgroup $(ARGS)

test-newest:
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade -e ".[$(EXTRAS),dev]"
	.venv-newest/bin/python -m pytest -n 2 --dist loadgroup $(ARGS)

test-matrix: $(VENV)/.test
	$(BIN)/python scripts/matrix.py $(ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check ebu tests bench scripts examples
	$(BIN)/ruff format --check --quiet ebu tests bench scripts examples

types: $(VENV)/.test
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

results: $(VENV)/.run
	$(BIN)/python -m scripts.results

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) -e ".[$(EXTRAS),$(NEIGHBOURS),dev]"
	touch $@ $(VENV)/.run

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) -e ".[docs]"
	touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) site .venv-lowest .venv-newest build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
