# Each target prepares .venv by itself, from nothing, and brings it up to date when the build's
# sources changed. Python files need no rebuild: the package is installed in editable mode. Of the
# CPU's kernels it has those for this machine's instruction sets.
#
#   make demo            train the example Llama on this machine's CPU
#   make test            C++ unit tests, then pytest
#   make test-sanitize   C++ unit tests and random calls of the handlers under AddressSanitizer and
#                        UndefinedBehaviorSanitizer
#   make test-neon       C++ unit tests for AArch64, cross-compiled and run by qemu
#   make test-avx512     C++ unit tests for AVX-512, emulated by SIMDe
#   make bench           time the ops against XLA (and PyTorch where it is installed)
#   make lint            formatting, lint and types
#   make format          rewrite the sources to the format that lint asks for
#
# PYTHON names the interpreter that .venv is made from. ARGS go to the command of demo, test (pytest)
# and bench: make test ARGS="-k attention".

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
CXX_SOURCES = $(shell find ffi include tests -name '*.h' -o -name '*.cc')
BUILD_SOURCES := pyproject.toml CMakeLists.txt $(shell find cmake ffi include tests/hipsim -type f -not -name "*.py*")

.PHONY: demo test pytest bench lint format clean

demo: .venv/installed
	$(BIN)/python examples/flax_llama/train.py $(ARGS)

test: test-native pytest

pytest: .venv/installed
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

bench: .venv/installed
	$(BIN)/python -m jax_hipkittens bench $(ARGS)

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)
	$(BIN)/mypy

format: .venv/installed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CXX_SOURCES)

# A static pattern, as make looks for no pattern rule to build a phony target.
test-native test-sanitize test-neon test-avx512: test-%: .venv/installed
	PATH="$(abspath $(BIN)):$$PATH" tests/unit.sh $*

clean:
	rm -rf .venv build

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: expected Python 3.11 or newer, received $$($(PYTHON) --version 2>&1);" \
	       "name another one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@rm -rf .venv
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/installed: .venv/bin/python $(BUILD_SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[dev]' \
	  --config-settings cmake.define.HK_HOST_ISAS=native
	@touch $@
