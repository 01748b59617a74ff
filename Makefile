# On a machine with Python 3.12 or newer and nothing else:
#
#   make demo     faulty rules and their errors, then a small training run
#   make test     the tests, on each JAX that is supported
#
# `make PYTHON=/path/to/python ...` names the interpreter to use.
#
# A file in constraints/ stands for each JAX that is supported, and has the version of
# everything that is installed with it. So what passes today passes on any later day.

PYTHON ?=
PYTEST ?=
BENCH ?=

SUPPORTED := $(shell ls constraints | sed -n 's/^jax-\(.*\)\.txt$$/\1/p' | sort -V)
OLDEST := $(firstword $(SUPPORTED))
NEWEST := $(lastword $(SUPPORTED))
BETWEEN := $(filter-out $(OLDEST) $(NEWEST),$(SUPPORTED))
MINORS := 14 13 12

# What a version between is tested on: what JAX takes and refuses, and what we do then.
CONTRACTS := $(wildcard tests/test_*accepts*.py tests/test_*result*.py \
  tests/test_ordinary*.py tests/test_jax_errors*.py tests/test_cotangents.py \
  tests/test_tangents.py)

NAMES = $(or $(PYTHON),$(MINORS:%=python3.%) python3 python)
PIP := -m pip --disable-pip-version-check -qq
RUN := -m pytest -n 2 --dist worksteal
FREEZE := $(PIP) freeze --all --exclude-editable
BIN := .venv-$(NEWEST)/bin/python

.PHONY: help demo test test-latest update latest lint typecheck bench clean
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

demo: .venv-$(NEWEST)/.installed  ## show what is caught, and train a classifier
	@$(BIN) -m examples.demo

test: $(NEWEST:%=test-%) $(OLDEST:%=test-%) $(BETWEEN:%=test-%)  ## run the tests

$(SUPPORTED:%=test-%): test-%: .venv-%/.installed
	.venv-$*/bin/python $(RUN) $(PYTEST) $(if $(filter $*,$(BETWEEN)),$(SHORT))

# A run of named files is as short as it was asked to be.
SHORT = $(if $(findstring tests/,$(PYTEST)),,$(CONTRACTS))

test-latest: latest  ## run the tests on what is newer than the constraints, if anything
	@newer=$$(.venv-latest/bin/python $(FREEZE) | grep -vxFf constraints/jax-$(NEWEST).txt); \
	if [ -z "$$newer" ]; then \
	  echo "test-latest: nothing is newer than constraints/jax-$(NEWEST).txt," \
	    "which \`make test\` tests"; \
	else \
	  echo "test-latest: newer than constraints/jax-$(NEWEST).txt:" $$newer; \
	  .venv-latest/bin/python $(RUN) $(PYTEST); \
	fi

# Made with the oldest Python, since what it can install the others can; this is checked.
update: NAMES = $(or $(PYTHON),python3.12 python3.13 python3.14 python3 python)
update:  ## write constraints: today's versions, with each supported JAX and a new one
	@for jax in $(SUPPORTED:%=jax==%) jax; do \
	  $(call create,.venv-latest) && $(call install,.venv-latest,,dev $$jax) || exit; \
	  written=constraints/jax-$$(.venv-latest/bin/python -c $(VERSION)).txt; \
	  .venv-latest/bin/python $(FREEZE) >$$written || exit; \
	done; \
	for minor in $(MINORS); do \
	  .venv-latest/bin/python $(PIP) install --dry-run --no-deps --only-binary :all: \
	    --python-version 3.$$minor --target unused --requirement $$written || exit; \
	done

lint: .venv-$(NEWEST)/.installed  ## check style and format
	$(BIN) -m ruff check .
	$(BIN) -m ruff format --check .

typecheck: .venv-$(NEWEST)/.installed  ## check the types of the package
	$(BIN) -m pyright --pythonpath $(BIN)
	$(BIN) -m mypy

bench: .venv-$(NEWEST)/.installed  ## measure what strict_hijax costs
	@$(BIN) -m benchmarks $(BENCH)

clean:  ## remove environments, caches and build results
	rm -rf .venv-* build dist .benchmarks .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- environments ---------------------------------------------------------------------

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

VERSION := 'from importlib.metadata import version; print(version("jax"))'

# $(call create,FOLDER)
define create
	$(find_python); \
	echo "$(1): creating with $$("$$python" --version), a minute or two"; \
	"$$python" -m venv --clear $(1)
endef

# $(call install,FOLDER,OPTIONS OF PIP,DEPENDENCY GROUP AND MORE)
# Without an isolated build, which no constraint would reach: hatchling is in the group.
define install
	$(1)/bin/python $(PIP) install --upgrade $(2) pip && \
	$(1)/bin/python $(PIP) install $(2) --group $(3) && \
	$(1)/bin/python $(PIP) install $(2) --no-build-isolation --editable . && \
	echo "$(1): ready, jax $$($(1)/bin/python -c $(VERSION))"
endef

.venv-%/.installed: constraints/jax-%.txt pyproject.toml
	@if $(@D)/bin/python -c $(usable); then \
	  echo "$(@D): installing what has changed"; \
	else \
	  $(call create,$(@D)); \
	fi
	@$(call install,$(@D),--constraint $<,$(if $(filter $*,$(NEWEST)),dev,test) jax)
	@touch $@

latest:
	@$(call create,.venv-latest)
	@$(call install,.venv-latest,,dev jax)
