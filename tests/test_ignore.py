"""Turning checks off: for a class, a block, and the process."""

import threading

import jax
import pytest

import strict_hijax
from strict_hijax import MissingRuleError, StrictHiPrim, UsageError, ignore
from tests.primitives import init


def forward_only(name: str = "Forward", **keywords):
    body = {"expand": lambda self, x: x, "__init__": init((1,), ())}
    return type(StrictHiPrim)(name, (StrictHiPrim,), body, **keywords)


def test_by_class_and_its_subclasses():
    Base = forward_only(ignore=("SH102",))

    class Sub(Base):
        def expand(self, x):
            return 2 * x

    with pytest.raises(MissingRuleError):
        forward_only()
    with pytest.raises(MissingRuleError, match="SH103"):

        class Other(Base, supports=("vmap",)):
            pass


@pytest.mark.parametrize("codes", ["SH102", ["SH102"], {"SH102"}, ("SH101", "SH102")])
def test_by_class_in_any_container(codes):
    forward_only(ignore=codes)


def test_by_block():
    with ignore("SH101"), ignore("SH102", "SH204"):
        cls = forward_only()
        cls()
    with pytest.raises(MissingRuleError):
        forward_only()
    with pytest.raises(strict_hijax.ConstructionError, match="SH204"):
        cls()


def test_a_block_ends_with_an_exception():
    with pytest.raises(KeyError), ignore("SH102"):
        raise KeyError
    with pytest.raises(MissingRuleError):
        forward_only()


def test_a_block_holds_in_its_own_thread_only():
    found: list[type] = []

    def other() -> None:
        try:
            forward_only()
        except MissingRuleError as error:
            found.append(type(error))

    with ignore("SH102"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == [MissingRuleError]


def test_by_process(monkeypatch):
    monkeypatch.setenv("STRICT_HIJAX_IGNORE", " SH102 ,SH101,")
    forward_only()
    monkeypatch.setenv("STRICT_HIJAX_IGNORE", "")
    with pytest.raises(MissingRuleError):
        forward_only()


def test_the_other_faults_of_a_class_stay():
    with pytest.raises(strict_hijax.DefinitionError) as caught:

        class Bad(StrictHiPrim, ignore=("SH102",)):
            async def expand(self, x):
                return x

    assert caught.value.code == "SH114"


@pytest.mark.parametrize(
    ("code", "near"),
    [("SH1020", "SH102"), ("sh102", "SH102"), ("102", "SH102"), ("SH120x", "SH120")],
)
def test_an_unknown_code_names_the_nearest(code, near):
    with pytest.raises(UsageError, match=near) as caught:
        forward_only(ignore=(code,))
    assert caught.value.code == "SH120"
    assert caught.value.subject.endswith("Forward, ignore=")
    with pytest.raises(UsageError, match=near), ignore(code):
        pass


@pytest.mark.parametrize("code", ["SH999", "SH9"])
def test_an_unknown_code_that_is_near_to_none_gets_its_family(code):
    with pytest.raises(UsageError, match="SH120") as caught:
        forward_only(ignore=code)
    assert "did you mean" not in str(caught.value)
    assert "expected: one of SH901, SH902," in str(caught.value)


def test_a_block_around_a_class_does_not_cover_later_checks():
    with ignore("SH302"):

        class Bad(StrictHiPrim, supports=()):
            __init__ = init((jax.typeof(1.0),))

            def expand(self, x):
                return x > 0

    with pytest.raises(strict_hijax.RuleTypeError, match="SH302"):
        jax.jit(Bad())(1.0)


def test_an_unknown_code_of_the_process(monkeypatch):
    monkeypatch.setenv("STRICT_HIJAX_IGNORE", "SH102,nonsense")
    with pytest.raises(UsageError, match="STRICT_HIJAX_IGNORE"):
        forward_only()


@pytest.mark.parametrize("codes", [3, None, (None,), (3,)])
def test_what_are_no_codes(codes):
    with pytest.raises(UsageError, match="SH120"):
        forward_only(ignore=codes)


def test_an_entry_that_is_no_string_is_an_unknown_code():
    with pytest.raises(UsageError, match="SH120") as caught, ignore(["SH311"]):
        pass
    assert caught.value.code == "SH120"
