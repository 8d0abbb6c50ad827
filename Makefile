# `make train` and `make test` need a Rust toolchain, a C compiler and CPython 3.10 or newer; everything else is fetched
# into .venv. ARGS is passed on: `make train ARGS="--method grpo --seed 1"`, `make test ARGS="tests/unit -x"`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help train test bench docs lint wheel dist lab tested developed toolchain clean

BIN := .venv/bin
BUILT := target/wheels/.built
PIP := $(BIN)/uv pip install --quiet --python $(BIN)/python
PYTHONS := python3 python python3.13 python3.12 python3.11 python3.10 $(wildcard $(HOME)/.pyenv/versions/3.1?.*/bin/python3)
FITS := import ensurepip, sys; sys.exit(sys.version_info < (3, 10))
SOURCES := Cargo.toml Cargo.lock pyproject.toml README.md LICENSE \
	$(shell find rust bindings python -not -name '*.so' -not -path '*/__pycache__*')

help: ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

train: lab ## build, install and train a small agent with GiGPO, with a picture at the end
	$(BIN)/tallystick train $(ARGS)

test: tested ## the Rust tests, then the Python tests
	@if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --locked; else cargo test --locked; fi
	$(BIN)/python -m pytest $(ARGS)

bench: lab ## ours against peers, parity first: ARGS="--group groups --json FILE"
	$(BIN)/tallystick bench $(ARGS)

docs: tested ## the pages of docs/api, from the docstrings
	$(BIN)/python docs/generate.py

lint: developed ## clippy, rustfmt, ruff, mypy and the stub check against the built module
	cargo fmt --all --check
	PYO3_PYTHON=$(CURDIR)/$(BIN)/python cargo clippy --workspace --all-targets --locked -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/stubtest --mypy-config-file pyproject.toml tallystick._native

wheel: $(BUILT) ## the wheel for this machine, release profile, in target/wheels

dist: developed ## an sdist, and from it a portable abi3 wheel (manylinux2014), in dist/
	rm -rf dist
	PATH="$(CURDIR)/$(BIN):$$PATH" maturin build --release --locked --sdist --zig --compatibility manylinux2014 --out dist

clean: ## remove what was built
	rm -rf .venv target dist

# What each command needs, on top of the wheel.
lab: .venv/lab
tested: .venv/tested
developed: .venv/developed

.venv/lab: $(BUILT)
	$(PIP) --reinstall-package tallystick "$$(ls target/wheels/*.whl)[lab]"
	@touch $@

.venv/tested: $(BUILT)
	$(PIP) --reinstall-package tallystick "$$(ls target/wheels/*.whl)[reasoning-gym,textworld-express]" --group test
	@touch $@ .venv/lab

.venv/developed: .venv/tested
	$(PIP) --group dev
	@touch $@

$(BUILT): $(SOURCES) | toolchain $(BIN)/uv
	rm -f target/wheels/*.whl
	$(BIN)/maturin build --quiet --release --locked --interpreter $(BIN)/python --out target/wheels
	@touch $@

toolchain:
	@command -v cargo >/dev/null || { echo "cargo is not on PATH: install Rust 1.89 or newer with rustup." >&2; exit 1; }
	@minor=$$(cargo --version | sed -nE 's/^cargo 1\.([0-9]+).*/\1/p'); [ "$${minor:-0}" -ge 89 ] || \
		{ echo "cargo is older than 1.89: run rustup update, or install Rust with rustup." >&2; exit 1; }
	@command -v cc >/dev/null || { echo "no C compiler on PATH: install gcc or clang, which Rust links with." >&2; exit 1; }

# The first interpreter that fits makes the environment; `exec` ends the search.
$(BIN)/uv:
	@for python in $(PYTHON) $(PYTHONS); do \
		"$$python" -c "$(FITS)" 2>/dev/null && exec "$$python" -m venv .venv; \
	done; echo "no CPython 3.10 or newer with venv was found: install one, or name it with make PYTHON=..." >&2; exit 1
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(PIP) --group build
