"""`python -m strict_hijax explain`: what it prints, and how it says that it cannot."""

import re

import pytest

from strict_hijax.__main__ import main
from strict_hijax._codes import CODES
from strict_hijax._pages import pages

CLI = ("-m", "strict_hijax")


def test_explain_prints_title_page_and_how_to_turn_the_check_off(capsys):
    assert main(["explain", "SH311"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"SH311: {CODES['SH311'].title}\n=====")
    assert pages()["SH311"] in printed
    assert 'class P(StrictHiPrim, ignore=("SH311",)): ...' in printed
    assert "STRICT_HIJAX_IGNORE=SH311" in printed
    assert "does not cover later checks" in printed


@pytest.mark.parametrize(
    ("code", "of_class", "of_function"),
    [("SH102", True, False), ("SH417", False, True), ("SH503", True, True)],
)
def test_explain_says_where_ignore_goes(code, of_class, of_function, capsys):
    main(["explain", code])
    printed = capsys.readouterr().out
    line = f'class P(StrictHiPrim, ignore=("{code}",)): ...'
    assert (line in printed) is of_class
    line = f'@checked_custom_vjp(ignore=("{code}",))'
    assert (f"    {line}\n" in printed) is of_function


def test_explain_prints_several_codes_in_the_order_given(capsys):
    assert main(["explain", "SH417", "SH102"]) == 0
    titles = re.findall(r"^(SH\d+): ", capsys.readouterr().out, re.MULTILINE)
    assert titles == ["SH417", "SH102"]


@pytest.mark.parametrize("given", ["sh311", "Sh311", " SH311 "])
def test_explain_takes_codes_in_any_case(given, capsys):
    assert main(["explain", given]) == 0
    assert capsys.readouterr().out.startswith("SH311: ")


def test_explain_all_lists_every_code_with_its_title(capsys):
    assert main(["explain", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{code}  {row.title}" for code, row in CODES.items()]


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("SH3111", "SH311"),
        ("311", "SH311"),
        ("sh_417", "SH417"),
        ("SH361", "SH316"),
        ("SH4I7", "SH417"),
    ],
)
def test_unknown_code_is_a_usage_error_that_names_the_nearest(given, near, capsys):
    assert main(["explain", given]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert f"{given!r} is no code of strict_hijax; did you mean {near}" in error
    assert "explain --all" in error


def test_unknown_code_that_is_like_no_other_gets_no_guess(capsys):
    assert main(["explain", "pink"]) == 2
    assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("given", ["SH999", "SH9", "9", "sh-999x"])
def test_unknown_code_that_is_near_to_none_gets_its_family(given, capsys):
    assert main(["explain", given]) == 2
    error = capsys.readouterr().err
    assert "did you mean" not in error
    listed = re.findall(r"^(SH\d+)  (.+)$", error, re.MULTILINE)
    family = [code for code in CODES if code.startswith("SH9")]
    assert listed == [(code, CODES[code].title) for code in family]


def test_no_command_lists_the_commands(capsys):
    assert main([]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert "usage: python -m strict_hijax" in error
    assert re.search(r"^ +explain +print the page of a code", error, re.MULTILINE)


def test_one_unknown_code_among_several_prints_no_page(capsys):
    assert main(["explain", "SH311", "SH999X"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("arguments", [["explain"], ["explain", "SH311", "--all"]])
def test_explain_wants_codes_or_all_and_not_both(arguments, capsys):
    assert main(arguments) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert "usage: python -m strict_hijax explain" in error


@pytest.mark.parametrize("arguments", [["explane"], ["explain", "--everything"]])
def test_other_wrong_use_shows_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m strict_hijax" in capsys.readouterr().err


def test_help_names_the_command(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "explain" in capsys.readouterr().out


def test_module_runs_as_a_program_with_these_exit_codes(clean_process):
    right = clean_process(args=(*CLI, "explain", "SH102"))
    assert right.returncode == 0
    assert right.stdout.startswith("SH102: ")
    assert right.stderr == ""
    wrong = clean_process(args=(*CLI, "explain", "SH3111"))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean SH311?" in wrong.stderr


def test_explain_imports_nothing_heavy_and_initialises_no_backend(clean_process):
    done = clean_process("""
import sys
import jax
from jax._src import xla_bridge
before = {name.partition(".")[0] for name in sys.modules}
from strict_hijax.__main__ import main
main(["explain", "--all"])
added = {name.partition(".")[0] for name in sys.modules} - before
heavy = {"rich", "jaxtyping", "pytest", "sklearn", "scipy", "hypothesis", "IPython"}
print(sorted(added & heavy), list(xla_bridge._backends), file=sys.stderr)
""")
    assert done.stderr == "[] []\n"
