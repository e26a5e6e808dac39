# make train    set up, train the paper's agent on one Atari game, print its score   (GAME= STEPS= SEED=)
# make quick    set up, learn CartPole in about a minute
# make test     set up, run all tests            make check    lint + types + tests, as CI does
# make bench    measure speed on this machine

PYTHON ?= python3
GAME   ?= Pong
STEPS  ?= 100k
SEED   ?= 0
BIN    := .venv/bin
READY  := .venv/ready

.PHONY: help train quick test check lint types wheel bench clean
.DEFAULT_GOAL := help

help:
	@sed -n '1,4s/^# //p' Makefile

# One stamp file: a second make installs nothing unless the dependencies changed.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $(READY)

train: $(READY)
	$(BIN)/sacd train $(GAME) --steps $(STEPS) --seed $(SEED) $(ARGS)

quick: $(READY)
	$(BIN)/sacd train CartPole-v1 --preset classic --seed $(SEED) $(ARGS)

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --durations 5 $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

check: lint types test

# The tests, from the built wheel in an environment of its own: what users get is what is tested.
wheel: $(READY)
	rm -rf dist build/wheel
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .
	$(PYTHON) -m venv --without-pip build/wheel
	$(BIN)/python -m pip --python build/wheel/bin/python install --quiet --constraint constraints.txt "$$(ls dist/*.whl)[dev]"
	cd build && OMP_NUM_THREADS=1 wheel/bin/python -m pytest --numprocesses auto -m "not slow" ../tests

bench: $(READY)
	$(BIN)/python bench/kernels.py
	$(BIN)/python bench/update.py
	$(BIN)/python bench/loop.py

clean:
	rm -rf .venv dist build
