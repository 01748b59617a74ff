"""Kinds 17 and 18: what an instance declares, and how it is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.detection.operators import fault
from benchmarks.detection.source import Primitive
from benchmarks.detection.stages import Stage
from benchmarks.detection.trees import Leaf, Tree, leaves, specs, types, values, written

from .sites import other_dtypes, other_shapes

type Mutants = Iterator[Primitive]

# --- 17: construction -----------------------------------------------------------------

_DECLARED = ("in_avals", "out_aval", "params")
"""What `super().__init__()` reads; in this order in each `__init__`."""


@fault(17, Stage.NEW, "SH201")
def no_super_init(p: Primitive) -> Mutants:
    yield p.declaring(super="pass")


@fault(17, Stage.NEW, "SH202")
def super_init_too_early(p: Primitive) -> Mutants:
    init = dict(p.init)
    last = init.pop("super")
    for place in range(len(_DECLARED)):  # what comes later may be set late
        lines = list(init.items())
        lines.insert(place, ("super", last))
        yield p.but(init=dict(lines))
    for name in _DECLARED:
        yield p.declaring(**{name: "pass"})


@fault(17, Stage.NEW, "SH203")
def in_avals_that_are_no_tuple(p: Primitive) -> Mutants:
    declared = types(p.spec.inputs)
    yield p.declaring(in_avals=f"self.in_avals = list({declared})")
    yield p.declaring(in_avals=f"self.in_avals = dict(enumerate({declared}))")
    if len(p.spec.inputs) == 1 and not isinstance(p.spec.inputs[0], tuple):
        yield p.declaring(in_avals=f"self.in_avals = {types(p.spec.inputs[0])}")


@fault(17, Stage.NEW, "SH204", needs={"refs": False})
def a_value_or_spec_in_place_of_a_type(p: Primitive) -> Mutants:
    for attribute, tree in (("in_avals", p.spec.inputs), ("out_aval", p.spec.output)):
        count = len(leaves(tree))
        for place in range(count):
            for wrong in ("value", "spec"):
                texts = [
                    getattr(leaf, wrong) if i == place else leaf.type
                    for i, leaf in enumerate(leaves(tree))
                ]
                line = f"self.{attribute} = {written(tree, iter(texts))}"
                yield p.declaring(**{attribute: line})
        for text in (values(tree), specs(tree)):
            yield p.declaring(**{attribute: f"self.{attribute} = {text}"})


@fault(17, Stage.NEW, "SH205", static="")
def params_that_are_no_mapping(p: Primitive) -> Mutants:
    for value in ("[]", "()", "[('n', 3)]", "'n'", "3", "(('n', 3),)"):
        yield p.declaring(params=f"self.params = {value}")


@fault(17, Stage.NEW, "SH205", static="")
def keys_that_are_no_strings(p: Primitive) -> Mutants:
    for value in ("{0: 'n'}", "{('n',): 3}", "{None: 1}", "{'n': 1, 2: 3}"):
        yield p.declaring(params=f"self.params = {value}")


@fault(17, Stage.NEW, "SH206")
def a_parameter_that_cannot_be_hashed(p: Primitive) -> Mutants:
    for value in ("[1, 2]", "{'a': 1}", "{1}", "np.ones(3)", "([1],)", "jnp.ones(3)"):
        line = f"{p.init['params']} | dict(extra={value})"
        yield p.declaring(params=line)


@fault(17, Stage.NEW, "SH207", at_import=False)
def a_tracer_among_the_parameters(p: Primitive) -> Mutants:
    """The instance is made within a trace, which there is not at import."""
    traced = p.but(init_params=("self", "traced=None"))
    for value in ("traced", "(traced, 1)", "{'a': traced}"):
        line = f"{p.init['params']} | dict(extra={value})"
        make = f"jax.eval_shape(lambda t: [{p.name}(t), t][1], jnp.float32(1))"
        if not value.startswith("{"):
            yield traced.declaring(params=line).but(construct=make)


_HIDDEN = (
    "expand",
    "vjp_fwd",
    "batch",
    "in_avals",
    "out_tree",
    "check",
    "staging",
    "dce",
)


@fault(17, Stage.NEW, "SH208")
def a_parameter_that_hides_a_rule_or_attribute(p: Primitive) -> Mutants:
    for name in _HIDDEN:
        yield p.declaring(params=f"{p.init['params']} | dict({name}=3)")


@fault(17, Stage.NEW, "SH209")
def another_number_of_inputs_than_the_rules_take(p: Primitive) -> Mutants:
    declared = list(p.spec.inputs)
    more = types((*declared, Leaf((3,), "float32")))
    yield p.declaring(in_avals=f"self.in_avals = {more}")
    if len(declared) > 1:
        yield p.declaring(in_avals=f"self.in_avals = {types(tuple(declared[:-1]))}")
    yield p.declaring(in_avals="self.in_avals = ()")


# --- 18: calls ------------------------------------------------------------------------

call = fault(18, Stage.CALL, "SH210", "SH211", at_import=False, needs={"refs": False})


@call
def too_few_or_too_many_arguments(p: Primitive) -> Mutants:
    yield p.but(args=(*p.args, "ones((3,), 'float32')"))
    yield p.but(args=p.args[:-1])
    if len(p.args) > 1:
        yield p.but(args=(f"({', '.join(p.args)})",))


def _given(p: Primitive, i: int, tree: Tree) -> Primitive:
    args = list(p.args)
    args[i] = values(tree)
    return p.but(args=tuple(args))


def _changed(tree: Tree, place: int, leaf: Leaf) -> Tree:
    """A tree with another leaf in one place."""
    count = iter(range(len(leaves(tree))))

    def visit(node: Tree) -> Tree:
        if isinstance(node, Leaf):
            return leaf if next(count) == place else node
        if isinstance(node, tuple):
            return tuple(map(visit, node))
        if isinstance(node, dict):
            return {key: visit(child) for key, child in node.items()}
        return None

    return visit(tree)


@call
def an_argument_of_another_dtype(p: Primitive) -> Mutants:
    for i, tree in enumerate(p.spec.inputs):
        for place, leaf in enumerate(leaves(tree)):
            for dtype in other_dtypes(leaf):
                yield _given(p, i, _changed(tree, place, replace(leaf, dtype=dtype)))


@call
def an_argument_of_another_shape(p: Primitive) -> Mutants:
    for i, tree in enumerate(p.spec.inputs):
        for place, leaf in enumerate(leaves(tree)):
            for shape in other_shapes(leaf):
                yield _given(p, i, _changed(tree, place, replace(leaf, shape=shape)))


@call
def an_argument_of_another_structure(p: Primitive) -> Mutants:
    for i, tree in enumerate(p.spec.inputs):
        yield _given(p, i, (tree,))
        yield _given(p, i, {"a": tree})
        if isinstance(tree, dict):
            yield _given(p, i, tuple(tree.values()))
            yield _given(p, i, {f"{key}_": child for key, child in tree.items()})
        if isinstance(tree, tuple):
            yield _given(p, i, (*tree, None))
            yield _given(p, i, tree[:1] if len(tree) > 1 else ())
