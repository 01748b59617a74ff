"""What a JAX release changes for strict_hijax: `python -m benchmarks jax-report`."""
