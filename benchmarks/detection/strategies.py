"""How programs are drawn: hypothesis strategies for specs.

A keyword fixes what a mutation needs, so that nothing drawn is thrown away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from . import functions, hitypes, jvp_functions, primitives
from .detours import DETOURS
from .trees import Leaf, Tree, leaves

SHAPES = ((), (3,), (2, 3), (2,), (1, 3))
FLOATS = ("float32", "bfloat16", "float16", "complex64")
INTEGERS = ("int32", "int8", "bool", "uint8")


def float_leaves() -> st.SearchStrategy[Leaf]:
    """Arrays that have a tangent."""
    return st.builds(Leaf, st.sampled_from(SHAPES), st.sampled_from(FLOATS))


def integer_leaves() -> st.SearchStrategy[Leaf]:
    return st.builds(Leaf, st.sampled_from(SHAPES), st.sampled_from(INTEGERS))


def detours() -> st.SearchStrategy[str]:
    """What tangents are sent through; as often nothing."""
    return st.one_of(st.just(""), st.sampled_from(sorted(DETOURS)))


@st.composite
def trees(draw: st.DrawFn, leaf: st.SearchStrategy[Leaf], least: int = 0) -> Tree:
    """A leaf or a small container, with at least so many leaves (0 to 2)."""
    kinds = ["leaf", "leaf", "pair", "dict", "nested", "gap"]
    kind = draw(st.sampled_from(kinds if least < 2 else kinds[2:5]))
    if kind == "leaf":
        return draw(leaf)
    if kind == "pair":
        return draw(leaf), draw(leaf)
    if kind == "dict":
        return {"b": draw(leaf), "w": draw(leaf)}
    if kind == "nested":
        return {"a": (draw(leaf), draw(leaf)), "b": draw(leaf)}
    return draw(leaf), None


@st.composite
def inputs(draw: st.DrawFn, **fixed: Any) -> tuple[Tree, ...]:
    """One to three inputs, of which one has a tangent; then integers, and a Ref.

    Keywords: `count`, the least number of inputs; `container`, whether the first is a
    container of several leaves; `integers`, `refs`: whether there must (True) or may
    not (False) be such an input.
    """
    first = draw(trees(float_leaves(), 2 if fixed.get("container") else 0))
    found: list[Tree] = [first]
    least = fixed.get("count", 1)
    more = draw(st.integers(max(0, least - 1), max(1, least - 1)))
    found += [draw(trees(float_leaves())) for _ in range(more)]
    if fixed.get("refs", False):
        found.append(Leaf(draw(st.sampled_from(SHAPES)), "float32", ref=True))
    integers = fixed.get("integers")
    if integers or (integers is None and draw(st.booleans())):
        found.append(draw(integer_leaves()))
    return tuple(found)


@st.composite
def outputs(draw: st.DrawFn, **fixed: Any) -> Tree:
    """An output with a float leaf; `several` asks for two, `integers` for one more."""
    tree = draw(trees(float_leaves(), 2 if fixed.get("several") else 0))
    if fixed.get("integers"):
        return tree, draw(integer_leaves())
    return tree


@st.composite
def primitive_specs(draw: st.DrawFn, **fixed: Any) -> primitives.Spec:
    """A spec in which the fields named by keywords are as given.

    Besides: `has` and `lacks`, transforms that it must and may not have; `reverse_in`
    and the like, several values for a field; `needs`, keywords for the inputs, and
    among them `output`, those for the output; `promise`, whether it promises all that
    it has.
    """
    has, lacks = set(fixed.get("has", ())), set(fixed.get("lacks", ()))

    def drawn(field: str, *options: Any) -> Any:
        among = fixed.get(f"{field}_in", options)
        wanted = [o for o in options if o in among]
        return fixed[field] if field in fixed else draw(st.sampled_from(wanted))

    by_hand = ["accums", "retval", "logs"]
    derived = [f"from_{rule}" for rule, t in _SOURCES.items() if t not in lacks]
    reverse = drawn("reverse", *by_hand, *derived)
    if "lin" in fixed:
        lin = fixed["lin"]
    elif "linearize" in lacks:
        lin = ""
    elif "linearize" in has or reverse == "from_lin" or fixed.get("jvp") == "from_lin":
        may_derive = fixed.get("jvp") != "from_lin" and "jvp" not in lacks
        lin = draw(st.sampled_from(["hand", "from_jvp"][: 1 + may_derive]))
    else:
        lin = draw(st.sampled_from(["", "", "hand"]))
    if "jvp" in fixed:
        jvp = fixed["jvp"]
    elif "jvp" in lacks:
        jvp = ""
    elif lin == "from_jvp":
        jvp = "hand"
    else:
        needed = has & {"jvp", "remat"} or reverse == "from_jvp"
        options: list[str] = ["hand", "from_lin"] if lin == "hand" else ["hand"]
        options += [] if needed else [""] * 2
        jvp = draw(st.sampled_from(options))
    rules = {r for r in ("batch", "dce", "remat") if draw(st.booleans())}
    rules |= {"transpose"} if draw(st.integers(0, 3)) == 0 else set()
    rules -= {rule for rule, t in _OPTIONAL.items() if t in lacks}
    rules |= {rule for rule, t in _OPTIONAL.items() if t in has}
    needs = dict(fixed.get("needs", {}))
    alone = reverse in ("accums", "retval") and not (jvp or lin or has)
    refs = needs.get("refs", alone and draw(st.integers(0, 3)) == 0)
    late = "" if fixed else draw(st.sampled_from(["", "", "class", "instance"]))
    rules = set() if refs else rules
    linear = "transpose" in rules
    needs |= {"refs": refs} | ({"integers": False} if linear else {})
    ins = draw(inputs(**needs))
    if not fixed and not rules and draw(st.integers(0, 4)) == 0:
        ins = (*ins, *[Leaf((), "float32")] * 70)
    out = draw(outputs(**needs.get("output", {})))
    third = drawn("third", "", "True", "tree")
    fourth = reverse == "accums" and lin != "from_jvp" and draw(st.integers(0, 3)) == 0
    spec = primitives.Spec(
        ins,
        out,
        _functions(draw, ins, linear),
        static=drawn("static", "", "scale", "power"),
        reverse=reverse,
        jvp=jvp,
        lin=lin,
        third="True" if third == "tree" and not _is_of_tuples(out) else third,
        fourth=fixed.get("fourth", fourth),
        rules=frozenset(rules),
        layout=drawn("layout", "one", "base", "mixin"),
        style=drawn("style", "self", "expand"),
        late=late,
        detour=draw(detours()),
        number=draw(st.integers(0, 10**6)),
    )
    promise = fixed.get("promise", bool(has) or draw(st.booleans()))
    return replace(spec, supports=tuple(sorted(spec.transforms)) if promise else None)


_SOURCES = {"jvp": "jvp", "lin": "linearize"}
_OPTIONAL = {
    "batch": "vmap",
    "transpose": "transpose",
    "dce": "dce",
    "remat": "remat rule",
}


def _functions(draw: st.DrawFn, ins: Tree, linear: bool = False) -> tuple[str, ...]:
    names = ["id"] if linear else list(primitives.FUNCTIONS)
    return tuple(draw(st.sampled_from(names)) for _ in leaves(ins))


def _is_of_tuples(tree: Tree) -> bool:
    if isinstance(tree, tuple):
        return all(map(_is_of_tuples, tree))
    return isinstance(tree, Leaf)


@st.composite
def function_specs(draw: st.DrawFn, **fixed: Any) -> functions.Spec:
    """A spec of a function with these fields as given; see `primitive_specs`."""

    def drawn(field: str, *options: Any) -> Any:
        among = fixed.get(f"{field}_in", options)
        wanted = [o for o in options if o in among]
        return fixed[field] if field in fixed else draw(st.sampled_from(wanted))

    form = drawn("form", *functions.FORMS)
    ins, out = _of_function(draw, fixed)
    zeros = form in ("defvjp", "defvjp_with_logs") and draw(st.integers(0, 3)) == 0
    zeros = fixed.get("symbolic_zeros", zeros)
    remat = form == "defvjp" and not zeros and draw(st.integers(0, 4)) == 0
    return functions.Spec(
        ins,
        out,
        _functions(draw, ins),
        form=form,
        static=drawn("static", None, 0, 1, "last"),
        by_name=drawn("by_name", False, True),
        symbolic_zeros=zeros,
        optimize_remat=fixed.get("optimize_remat", remat),
        style=drawn("style", "self", "own"),
        number=draw(st.integers(0, 10**6)),
    )


@st.composite
def jvp_function_specs(draw: st.DrawFn, **fixed: Any) -> functions.Spec:
    """A spec of a function with a jvp rule; `defjvps` takes no static arguments."""
    form = fixed.get("form") or draw(st.sampled_from(jvp_functions.FORMS))
    ins, out = _of_function(draw, fixed)
    zeros = form == "defjvp" and draw(st.integers(0, 3)) == 0
    statics = [None] if form == "defjvps" else [None, None, 0, 1, "last"]
    statics = list(fixed.get("static_in", statics))
    return functions.Spec(
        ins,
        out,
        _functions(draw, ins),
        form=form,
        static=fixed["static"] if "static" in fixed else draw(st.sampled_from(statics)),
        symbolic_zeros=fixed.get("symbolic_zeros", zeros),
        style=fixed.get("style") or draw(st.sampled_from(["self", "own"])),
        detour="" if fixed.get("elementwise") else draw(detours()),
        number=draw(st.integers(0, 10**6)),
    )


def _of_function(
    draw: st.DrawFn, fixed: dict[str, Any]
) -> tuple[tuple[Tree, ...], Tree]:
    """Inputs and output; with `elementwise`, one array and one of the same type."""
    if fixed.get("elementwise"):
        leaf = Leaf((3,), draw(st.sampled_from(FLOATS)))
        return (leaf,), leaf
    needs = fixed.get("needs", {})
    ins = draw(inputs(**{**needs, "refs": False}))
    return ins, draw(outputs(**needs.get("output", {})))


@st.composite
def hitype_specs(draw: st.DrawFn, **fixed: Any) -> hitypes.Spec:
    """A spec of a hijax type with one to three arrays in a value."""
    vector = fixed.get("is_vector", draw(st.booleans()))
    part = float_leaves() if vector else st.one_of(float_leaves(), integer_leaves())
    return hitypes.Spec(
        tuple(draw(st.lists(part, min_size=1, max_size=3))),
        is_vector=vector,
        has_axes=fixed.get("has_axes", draw(st.booleans())),
        style=fixed.get("style") or draw(st.sampled_from(hitypes.STYLES)),
        number=draw(st.integers(0, 10**6)),
    )
