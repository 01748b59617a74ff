"""`python -m examples.demo`: what strict_hijax finds, and what it costs a program.

Ends with exit code 1 where something is not as claimed.
"""

import sys
import time

import jax

from . import faults, text, training


def main() -> int:
    """Run the three parts in order."""
    started = time.perf_counter()
    print(f"jax {jax.__version__}, Python {sys.version.split()[0]}")
    claims = [*faults.run(), *training.run_training(), *training.run_comparison()]
    print(text.heading("Result"))
    for claim in claims:
        print(text.wrapped(f"NOT AS CLAIMED: {claim}", hanging="  "))
    if not claims:
        print("Everything is as claimed.")
    print(f"{time.perf_counter() - started:.0f} seconds")
    return 1 if claims else 0


if __name__ == "__main__":
    sys.exit(main())
