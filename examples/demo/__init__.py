"""The demonstration that `make demo` runs: `python -m examples.demo`."""
