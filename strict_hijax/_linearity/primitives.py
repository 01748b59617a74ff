"""How primitives treat values that are linear in tangents, as data.

Each table lists primitives by what becomes of a linear operand. A primitive that is in
none of them is one about which nothing is said. Names are those of the installed JAX
and of versions before it; one that does not exist is never met.
"""

from __future__ import annotations

# One result for each operand, with the very elements of it, moved, copied or scaled.
KEEPS = frozenset(
    [
        "reshape",
        "broadcast_in_dim",
        "broadcast_to",
        "transpose",
        "rev",
        "squeeze",
        "tile",
        "copy",
        "conj",
        "reduce_precision",
        "stop_gradient",
        "name",
        "optimization_barrier",
        "device_put",
        "reshard",
        "sharding_constraint",
        "layout_constraint",
        "with_memory_space_constraint",
        "pvary",
        "preduced",
        "reduced_vary_cast",
        "vary_unreduced_cast",
        "pbroadcast",
        "ppermute",
        "all_to_all",
        "all_gather",
        "all_gather_invariant",
        "all_gather_reduced",
    ]
)

# Sums of elements of each operand. What is constant in them is summed, too.
SUMS = frozenset(
    [
        "reduce_sum",
        "cumsum",
        "psum",
        "psum_invariant",
        "unreduced_psum",
        "reduce_scatter",
        "reduce_window_sum",
    ]
)

# Linear, and may well cancel what is constant.
MIXES = frozenset(["fft"])

# Some of the elements of the first operand; the other operands say which.
PICKS = frozenset(
    ["slice", "dynamic_slice", "gather", "split", "unstack", "real", "imag"]
)

# All elements of several operands, side by side.
GATHERS = frozenset(["concatenate", "stack", "complex"])

# The second operand is written over, or added to, the first, where the others say.
# By position: (what is written to, what is written).
WRITES = {"scatter": (0, 2), "dynamic_update_slice": (0, 1)}
ADDS_AT = {"scatter-add": (0, 2), "scatter-sub": (0, 2)}

ADDS = frozenset(["add", "add_any", "sub"])

# Linear in each of two operands: a product of two linear ones is quadratic.
PRODUCTS = frozenset(["mul"])
CONTRACTIONS = frozenset(["dot_general", "conv_general_dilated", "ragged_dot_general"])

# Linear in the last operand, while the others are constant.
SOLVES = frozenset(["triangular_solve", "tridiagonal_solve"])

# Elementwise, and linear in no operand, wherever it is looked at.
NONLINEAR = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "atan2",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "log2",
        "logistic",
        "sqrt",
        "rsqrt",
        "cbrt",
        "square",
        "pow",
        "abs",
        "sign",
        "floor",
        "ceil",
        "round",
        "rem",
        "erf",
        "erfc",
        "erf_inv",
        "lgamma",
        "digamma",
        "igamma",
        "igammac",
        "bessel_i0e",
        "bessel_i1e",
        "regularized_incomplete_beta",
        "polygamma",
        "zeta",
        "lt",
        "le",
        "gt",
        "ge",
    ]
)

# These can give zero for values that are not: what they make of constants is unknown.
ROUNDS = frozenset(["floor", "ceil", "round", "rem", "lt", "le", "gt", "ge"])

# The greater or lesser of operands. Bounds that no finite value meets change nothing.
BOUNDS = frozenset(["max", "min", "clamp"])

# Linear in no operand, unless there is but one element along their axes.
ORDERS = frozenset(
    [
        "reduce_max",
        "reduce_min",
        "reduce_prod",
        "argmax",
        "argmin",
        "cummax",
        "cummin",
        "cumprod",
        "cumlogsumexp",
        "top_k",
    ]
)

# Matrix functions that are linear in nothing.
DECOMPOSITIONS = frozenset(["cholesky", "eig", "eigh", "svd", "qr", "lu"])

# Constants out of nothing, or out of keys.
SOURCES = frozenset(
    [
        "axis_index",
        "random_bits",
        "random_wrap",
        "random_unwrap",
        "random_seed",
        "random_split",
        "random_fold_in",
        "random_clone",
        "random_gamma",
        "threefry2x32",
        "rng_uniform",
        "rng_bit_generator",
    ]
)

# A jaxpr with the operands of the equation; under which parameter it is found.
CALLS = {
    "jit": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "shard_map": "jaxpr",
    "eval_jaxpr": "jaxpr",
    "composite": "jaxpr",
    "known_call": "jaxpr",  # of ours: see `_functions.progress`
}
