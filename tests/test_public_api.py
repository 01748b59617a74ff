"""The public names, and the examples in their docstrings."""

import doctest
import importlib
import pkgutil

import pytest

import strict_hijax

PUBLIC = {
    "AdviceWarning",
    "ArgumentError",
    "CheckReport",
    "ClosedOverTracerError",
    "ConstructionError",
    "DefinitionError",
    "EffectError",
    "MissingRuleError",
    "MultipleFaultsError",
    "NoRulesError",
    "NonlinearRuleError",
    "NotInitializedError",
    "RuleReport",
    "RuleIndexError",
    "RuleTypeError",
    "RuleValueError",
    "SignatureError",
    "StrictHiPrim",
    "StrictHiType",
    "StrictHijaxError",
    "TangentStructureError",
    "UntraceableRuleError",
    "UsageError",
    "check",
    "checked_custom_jvp",
    "checked_custom_vjp",
    "ignore",
    "transforms",
}

WITH_EXAMPLE = (
    "StrictHiPrim",
    "StrictHiType",
    "StrictHijaxError",
    "check",
    "checked_custom_jvp",
    "checked_custom_vjp",
    "ignore",
    "transforms",
)


def test_public_names_are_these():
    names = {name for name in vars(strict_hijax) if not name.startswith("_")}
    submodules = {module.name for module in pkgutil.iter_modules(strict_hijax.__path__)}
    assert names - submodules == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_name_is_documented(name):
    assert len(vars(strict_hijax)[name].__doc__.strip()) > 20


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_public_name_has_an_example(name):
    assert ">>>" in vars(strict_hijax)[name].__doc__


MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(strict_hijax.__path__, "strict_hijax.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.failed == 0


def test_errors_are_public_under_the_name_that_a_traceback_shows():
    for name in PUBLIC:
        value = vars(strict_hijax)[name]
        if isinstance(value, type) and issubclass(value, Exception):
            assert value.__module__ == "strict_hijax"
            assert issubclass(value, strict_hijax.StrictHijaxError | Warning)
