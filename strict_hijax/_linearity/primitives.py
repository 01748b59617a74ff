"""How primitives treat values that depend on tangents: one table.

A primitive that is not in it is one about which nothing is said. Names are those of the
installed JAX and of versions before it; one that does not exist is never met.
"""

from __future__ import annotations

_NAMES = {
    # One result for each operand, with the very elements of it, moved or copied.
    "keeps": """
        reshape broadcast_in_dim broadcast_to transpose rev squeeze tile copy conj
        reduce_precision stop_gradient name optimization_barrier device_put reshard
        sharding_constraint layout_constraint with_memory_space_constraint pvary
        preduced reduced_vary_cast vary_unreduced_cast pbroadcast ppermute all_to_all
        all_gather all_gather_invariant all_gather_reduced""",
    # Sums of elements of each operand. What is constant in them is summed, too.
    "sums": """
        reduce_sum cumsum psum psum_invariant unreduced_psum reduce_scatter
        reduce_window_sum""",
    # Linear in the first operand, and may well cancel what is constant.
    "mixes": "fft real imag",
    # Some of the elements of the first operand; the other operands say which.
    "picks": "slice dynamic_slice gather split unstack",
    # All elements of several operands, side by side.
    "gathers": "concatenate stack complex",
    # Written over, or added to, the first operand, where others say.
    "writes": "scatter dynamic_update_slice",
    "adds_at": "scatter-add scatter-sub",
    "negates": "neg",
    "adds": "add add_any",
    "subtracts": "sub",
    # Linear in each of two operands: a product of two linear ones is quadratic.
    "multiplies": "mul",
    "contracts": "dot_general conv_general_dilated ragged_dot_general",
    "divides": "div",
    # Linear in the last operand, while the others are constant.
    "solves": "triangular_solve tridiagonal_solve",
    # Elementwise powers of one operand: see `POWERS`.
    "raises": "sqrt rsqrt cbrt square abs sign integer_pow pow",
    # Elementwise, analytic, and no power.
    "curves": """
        sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log
        log1p log2 logistic erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e""",
    # The same of several operands; and matrix functions that are linear in nothing.
    "bends": """
        atan2 igamma igammac regularized_incomplete_beta polygamma zeta cholesky eig
        eigh svd qr lu""",
    # These can give zero for values that are not.
    "rounds": "floor ceil round rem lt le gt ge",
    # The greater or lesser of operands.
    "bounds": "max min clamp",
    # The same along axes; linear in nothing unless there is but one element.
    "ranks": "reduce_max reduce_min cummax cummin",
    "orders": "reduce_prod argmax argmin cumprod cumlogsumexp top_k",
    # Constants out of nothing, or out of keys.
    "sources": """
        axis_index random_bits random_wrap random_unwrap random_seed random_split
        random_fold_in random_clone random_gamma threefry2x32 rng_uniform
        rng_bit_generator""",
    "counts": "iota",
    "converts": "convert_element_type",
    "selects": "select_n",
    "pads": "pad",
    "sorts": "sort",
    "solves_implicitly": "custom_linear_solve",
    # With a jaxpr that takes the operands of the equation.
    "calls": """
        jit remat2 checkpoint custom_jvp_call custom_vjp_call shard_map eval_jaxpr
        composite known_call call_hi_primitive""",
    "branches": "cond",
    "scans": "scan",
    "loops": "while",
}

KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}

# The exponent: how a power of one operand scales with it.
POWERS = {"sqrt": 0.5, "rsqrt": -0.5, "cbrt": 1 / 3, "square": 2, "abs": 1, "sign": 0}

# Of these the value is not negative.
NOT_NEGATIVE = frozenset(["sqrt", "rsqrt", "square", "abs", "exp", "exp2", "cosh"])

# Of these the value at zero is not zero.
NOT_ZERO_AT_ZERO = frozenset(["cos", "cosh", "exp", "exp2", "logistic", "erfc"])

# What is not looked into by JAX when it tells known outputs from unknown ones.
OPAQUE = frozenset(["custom_vjp_call"])
