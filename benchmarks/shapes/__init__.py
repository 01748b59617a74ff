"""What rules may return: many shapes of results, each run to see whether JAX takes it.

A row is one rule that gives its right result in one shape: a list for a tuple, one
array for a container, None, a part too few. `outcome(row, base)` makes the operation
from a base, stock JAX's or a strict one, runs it, and compares what comes out.
"""

from .bases import BASES as BASES
from .bases import Base as Base
from .rows import ROWS as ROWS
from .rows import Row as Row
from .running import Outcome as Outcome
from .running import outcome as outcome
