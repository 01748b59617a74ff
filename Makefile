# On a machine with Python 3.12 or newer and nothing else:
#
#   make demo     faulty rules and their errors, then a small training run
#   make test     the tests, on the newest jax and on the oldest that is supported
#
# `make PYTHON=/path/to/python ...` names the interpreter to use.

PYTHON ?=
PYTEST ?=
BENCH ?=

NEWEST := .venv
OLDEST := .venv-0.11.2
NAMES := $(or $(PYTHON),python3.14 python3.13 python3.12 python3 python)
PIP := -m pip --disable-pip-version-check -qq

.PHONY: help demo test test-newest test-oldest lint typecheck bench clean
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

demo: $(NEWEST)/.installed  ## show what is caught, and train a classifier
	@$(NEWEST)/bin/python -m examples.demo

test: test-newest test-oldest  ## run the tests on both versions of jax

test-newest: $(NEWEST)/.installed  ## run the tests on the newest jax
	$(NEWEST)/bin/python -m pytest -n 2 $(PYTEST)

test-oldest: $(OLDEST)/.installed  ## run the tests on the oldest supported jax
	$(OLDEST)/bin/python -m pytest -n 2 $(PYTEST)

lint: $(NEWEST)/.installed  ## check style and format
	$(NEWEST)/bin/python -m ruff check .
	$(NEWEST)/bin/python -m ruff format --check .

typecheck: $(NEWEST)/.installed  ## check the types of the package
	$(NEWEST)/bin/python -m pyright --pythonpath $(NEWEST)/bin/python
	$(NEWEST)/bin/python -m mypy

bench: $(NEWEST)/.installed  ## measure what strict_hijax costs
	@$(NEWEST)/bin/python -m benchmarks $(BENCH)

clean:  ## remove environments, caches and build results
	rm -rf $(NEWEST) $(OLDEST) build dist .benchmarks .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(NEWEST)/.installed: WHAT := --group dev jax jaxlib
$(OLDEST)/.installed: WHAT := --group test jax==0.11.2 jaxlib==0.11.2

# A name on PATH may be a shim that fails, or a Python without venv: run it to know.
# Last comes what pyenv has installed and not selected.
define usable
'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
endef

define find_python
	python=; \
	for name in $(NAMES); do \
	  if [ -z "$$python" ] && $$name -c $(usable); then python=$$name; fi; \
	done; \
	for name in /usr/bin/python3 "$$(pyenv root 2>/dev/null)"/versions/*/bin/python; do \
	  if [ -z "$$python$(PYTHON)" ] && "$$name" -c $(usable); then python=$$name; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "strict_hijax needs Python 3.12 or newer with its venv module," \
	    "and found none as: $(NAMES) (name one: make PYTHON=/path/to/python)" >&2; \
	  exit 1; \
	fi
endef

$(NEWEST)/.installed $(OLDEST)/.installed: pyproject.toml
	@if ! $(@D)/bin/python -c $(usable); then \
	  $(find_python); \
	  echo "$(@D): creating with $$("$$python" --version)"; \
	  "$$python" -m venv --clear $(@D); \
	fi
	@echo "$(@D): installing, a minute or two"
	@$(@D)/bin/python $(PIP) install --upgrade pip
	@$(@D)/bin/python $(PIP) install --upgrade --editable . $(WHAT)
	@touch $@
	@echo "$(@D): ready, jax" \
	  "$$($(@D)/bin/python -c 'from importlib.metadata import version as v; print(v("jax"))')"
