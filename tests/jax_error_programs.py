"""Small wrong programs, each run with stock JAX and with what is strict.

A program is a function of a `Program`, whose methods make classes, instances and calls
and remember the stage. It ends where stock JAX raises; what is strict must have raised
by then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Callable, Generator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.hijax import HiPrim

import strict_hijax
from strict_hijax import StrictHijaxError, StrictHiPrim
from tests import jax_errors
from tests.primitives import AVAL, X, expand, init, vjp_bwd, vjp_fwd

NEW_JAX = jax.__version_info__[:2] >= (0, 12)
PLAIN_CUSTOM_JVP: Any = jax.custom_jvp
PLAIN_CUSTOM_VJP: Any = jax.custom_vjp


@dataclasses.dataclass(slots=True)
class Program:
    """A run of one program, with stock JAX or with what is strict.

    Where it is `typed`, classes have examples and functions example arguments, so that
    what is strict knows the types at import.
    """

    strict: bool
    typed: bool = False
    stage: str = "definition"

    # --- primitives ---

    def prim_class(self, supports: Any = ("grad",), **rules: Any) -> Any:
        """A primitive for the sine with these rules; None leaves one out."""
        self.stage = "import" if self.typed else "definition"
        base: Any = StrictHiPrim if self.strict else HiPrim
        keywords = {"supports": supports} if self.strict else {}
        body = {
            "__module__": "mylib",
            "__init__": init((AVAL,)),
            "expand": expand,
            "vjp_fwd": vjp_fwd,
            "vjp_bwd": vjp_bwd,
            **rules,
        }
        if rules.keys() & {"vjp_bwd_retval", "vjp_bwd_retval_logs"}:
            del body["vjp_bwd"]
        if self.typed:
            body["examples"] = classmethod(lambda cls: [cls()])
        members = {name: rule for name, rule in body.items() if rule is not None}
        return types.new_class("Sine", (base,), keywords, lambda ns: ns.update(members))

    def prim(self, supports: Any = ("grad",), **rules: Any) -> Any:
        """An instance of such a class."""
        cls = self.prim_class(supports, **rules)
        self.stage = "construction"
        return cls()

    # --- functions ---

    def vjp_function(
        self, fun: Any, *rules: Any, how: str = "defvjp", given: Any = (X,), **kw: Any
    ) -> Any:
        """A custom_vjp function with these rules, which are given to the method `how`.

        `given` is an example of its arguments.
        """
        make = strict_hijax.checked_custom_vjp if self.strict else PLAIN_CUSTOM_VJP
        return self._function(make, fun, rules, how, given, kw)

    def jvp_function(
        self, fun: Any, *rules: Any, how: str = "defjvp", given: Any = (X,), **kw: Any
    ) -> Any:
        """The same for custom_jvp."""
        checked = getattr(strict_hijax, "checked_custom_jvp", PLAIN_CUSTOM_JVP)
        make = checked if self.strict else PLAIN_CUSTOM_JVP
        return self._function(make, fun, rules, how, given, kw)

    def _function(
        self, make: Any, fun: Any, rules: Any, how: str, given: Any, kw: dict[str, Any]
    ) -> Any:
        to_make = {
            name: kw.pop(name) for name in list(kw) if name.startswith("nondiff")
        }
        if self.typed:
            to_make["example_args"] = given
        self.stage = "import" if self.typed else "definition"
        function = make(fun, **to_make)
        if rules:
            getattr(function, how)(*rules, **kw)
        return function

    # --- uses ---

    def call(self, function: Any, *args: Any) -> Any:
        """Call it forward only."""
        self.stage = "call"
        return function(*(args or (X,)))

    def grad(self, function: Any, *args: Any) -> Any:
        """Call it forward only, and then take its gradient in all arguments."""
        args = args or (X,)
        self.call(function, *args)
        self.stage = "rule"
        out, pullback = jax.vjp(function, *args)
        return pullback(jax.tree.map(jnp.ones_like, out))

    def jvp(self, function: Any, *args: Any) -> Any:
        """Call it forward only, and then push tangents of ones through it."""
        args = args or (X,)
        self.call(function, *args)
        self.stage = "rule"
        return jax.jvp(function, args, tuple(map(jnp.ones_like, args)))

    def linearize(self, function: Any) -> Any:
        """Call it forward only, linearize it, and apply that."""
        self.call(function)
        self.stage = "rule"
        return jax.linearize(function, X)[1](jnp.ones_like(X))

    def transpose(self, function: Any) -> Any:
        """Call it forward only, and transpose it."""
        self.call(function)
        self.stage = "rule"
        return jax.linear_transpose(function, X)(X)


FORWARD_ONLY: dict[str, Any] = {"vjp_fwd": None, "vjp_bwd": None}
TANGENT = FORWARD_ONLY | {"supports": ("jvp",)}
LINEAR = FORWARD_ONLY | {"supports": ("linearize",)}
TRANSPOSED = FORWARD_ONLY | {"supports": ("transpose",)}


@dataclasses.dataclass(frozen=True, slots=True)
class Reached:
    """A wrong program, the row of the table that it reaches, and our answer to it.

    Attributes:
      name: of the test.
      function: the function in JAX that raises.
      says: how its message starts, or the condition of its `assert`; `…` is a gap.
      code, stages: ours, and when it comes, as the table says it.
      program: the program.
      config: options of JAX that are on.
      only_on: "both", or the version that has this site.
    """

    name: str
    file: str
    function: str
    says: str
    code: str
    stages: str
    program: Callable[[Program], Any]
    config: tuple[str, ...] = ()
    only_on: str = "both"

    def __str__(self) -> str:
        return self.name

    @property
    def row(self) -> jax_errors.Row:
        """The row of the table that it is about."""
        (row,) = (
            row
            for row in jax_errors.rows()
            if row.file == self.file
            and self.function in row.functions
            and self.says in row.texts
        )
        return row


def installed(cases: list[Reached]) -> list[Reached]:
    """Those of the installed version of JAX."""
    return [case for case in cases if jax_errors.VERSIONS[case.only_on]]


@contextlib.contextmanager
def options(names: tuple[str, ...]) -> Generator[None]:
    """These options of JAX on, and all frames of it in tracebacks."""
    before = {name: getattr(jax.config, name) for name in names}
    before["jax_traceback_filtering"] = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    for name in names:
        jax.config.update(name, True)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def raised_at(error: BaseException) -> jax_errors.Site | None:
    """The `raise` or `assert` of JAX that an exception comes from, if it is listed."""
    traceback = error.__traceback__
    assert traceback is not None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    _, _, file = traceback.tb_frame.f_code.co_filename.partition("/jax/_src/")
    for site in jax_errors.sites(file) if file in jax_errors.FILES else ():
        if site.lines[0] <= traceback.tb_lineno <= site.lines[1]:
            return site
    return None


def stock_error(case: Reached) -> tuple[BaseException, str]:
    """What stock JAX raises in a program, and at which stage."""
    program = Program(strict=False)
    with options(case.config), pytest.raises(Exception) as stock:  # noqa: PT011
        case.program(program)
    return stock.value, program.stage


def strict_error(case: Reached, stage: str) -> tuple[StrictHijaxError, str]:
    """What is raised in the same program where all is strict, and at which stage."""
    program = Program(strict=True, typed=stage == "import")
    with options(case.config), pytest.raises(StrictHijaxError) as ours:
        case.program(program)
    return ours.value, program.stage


def is_as_stock_jax(ours: BaseException, stock: BaseException) -> bool:
    """Whether ours is caught where the stock one is.

    Nobody catches an AssertionError: there ours is a TypeError, or a UsageError.
    """
    if type(stock) is AssertionError:
        return isinstance(ours, TypeError | strict_hijax.UsageError)
    return isinstance(ours, type(stock))


def holds(case: Reached) -> None:
    """Assert all that the table says of a case."""
    stock, stock_stage = stock_error(case)
    site = raised_at(stock)
    assert site is not None, repr(stock)
    assert case.row.covers(site), f"{site}, and not {case.row}"
    order = jax_errors.STAGES
    for expected in case.stages.split(" or "):
        ours, stage = strict_error(case, expected)
        assert stage == expected, str(ours)
        assert case.code in [finding.code for finding in ours.findings], str(ours)
        assert is_as_stock_jax(ours, stock), (type(ours).__mro__, type(stock))
        assert order.index(stage) <= order.index(stock_stage)
