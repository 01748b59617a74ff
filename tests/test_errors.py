"""The exceptions: attributes, stock classes, several faults at once, and pickling."""

import pickle

import pytest
from jax.errors import UnexpectedTracerError

import strict_hijax
from strict_hijax import MultipleFaultsError, StrictHijaxError, StrictHiPrim
from strict_hijax._codes import CODES
from strict_hijax._errors import ERROR_CLASSES

STOCK = {
    "ArgumentError": TypeError,
    "ClosedOverTracerError": UnexpectedTracerError,
    "ConstructionError": TypeError,
    "DefinitionError": TypeError,
    "EffectError": NotImplementedError,
    "MissingRuleError": NotImplementedError,
    "NonlinearRuleError": NotImplementedError,
    "NoRulesError": AttributeError,
    "NotInitializedError": AttributeError,
    "RuleIndexError": IndexError,
    "RuleTypeError": TypeError,
    "RuleValueError": ValueError,
    "SignatureError": TypeError,
    "TangentStructureError": RuntimeError,
    "UsageError": ValueError,
}


def one_fault() -> None:
    class Bad(StrictHiPrim):
        def expand(self, x):
            return x


def two_faults() -> None:
    class Bad(StrictHiPrim, supports=("vmap",)):
        def expand(self, x):
            return x

        async def jvp(self, primals, tangents):
            return primals, tangents


def error_of(make) -> StrictHijaxError:
    with pytest.raises(StrictHijaxError) as caught:
        make()
    return caught.value


@pytest.mark.parametrize(("name", "stock"), STOCK.items())
def test_each_error_is_also_what_jax_raises(name, stock):
    error = getattr(strict_hijax, name)
    assert issubclass(error, StrictHijaxError)
    assert issubclass(error, stock)
    assert error.__module__ == "strict_hijax"


def test_every_code_has_an_error_and_a_title():
    for name, code in CODES.items():
        assert code.error in ERROR_CLASSES
        assert code.title
        assert name[:2] == "SH"
        assert name[2:].isdigit()


def test_attributes():
    error = error_of(one_fault)
    assert error.code == "SH102"
    assert error.subject == "tests.test_errors.one_fault.<locals>.Bad"
    assert error.rule == "vjp_fwd"
    assert error.location.filename == __file__
    assert error.path is error.expected is error.got is None
    assert error.findings == (error.finding,)
    assert "supports=()" in error.hint


def test_a_message_says_what_where_and_what_to_write():
    lines = str(error_of(one_fault)).splitlines()
    blocks = "\n".join(line.strip() for line in lines).split("\n\n")
    assert len(blocks) == 5
    assert blocks[0].startswith("SH102 `tests.test_errors.one_fault.<locals>.Bad` ")
    assert "class Bad(StrictHiPrim)\nhas: expand      needs: vjp_fwd, and" in blocks[1]
    assert "for grad support, subclass <class" in blocks[2]
    assert blocks[3].startswith("To mend it, one of:\n")
    assert blocks[4] == "More: python -m strict_hijax explain SH102"


def test_several_faults_are_one_exception_of_all_their_stock_classes():
    error = error_of(two_faults)
    assert isinstance(error, MultipleFaultsError)
    assert isinstance(error, TypeError)
    assert isinstance(error, NotImplementedError)
    assert [finding.code for finding in error.findings] == ["SH114", "SH103"]
    assert str(error).startswith("2 faults in `tests.test_errors.two_faults")
    for finding in error.findings:
        assert finding.message() in str(error)


@pytest.mark.parametrize("make", [one_fault, two_faults])
def test_pickles(make):
    error = error_of(make)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.findings == error.findings


def test_an_error_hides_no_other():
    error = error_of(one_fault)
    assert error.__cause__ is None
    assert error.__suppress_context__
