"""Every code has a page, and every page does what it says: its programs are run."""

import importlib.resources
import re

import numpy as np
import pytest

from benchmarks.jax_report import stock
from strict_hijax import StrictHijaxError, check
from strict_hijax._codes import CODES
from strict_hijax._pages import pages

FILES = sorted(
    (entry.name, entry.read_text("utf-8"))
    for entry in (importlib.resources.files("strict_hijax") / "pages").iterdir()
    if entry.name.endswith(".md")
)

# Programs that must raise nothing: advice is never raised, and these are what it is
# about. Each asserts the wrong value that it is there to warn of.
ADVICE = {code for code in CODES if code.startswith("SH9")}

# Programs that are wrong only where no backend was initialised before: they are run in
# a process of their own.
NEEDS_FRESH_PROCESS = {"SH321", "SH428", "SH439"}

RUNS_HERE = sorted(set(CODES) - NEEDS_FRESH_PROCESS)


def programs(code: str) -> tuple[str, str]:
    """The wrong and the right program of a page."""
    wrong, right = re.findall(
        r"^(?:Wrong|Right):\n\n```python\n(.*?)^```$",
        pages()[code],
        re.MULTILINE | re.DOTALL,
    )
    return wrong, right


def paragraph(code: str, label: str) -> str:
    """What a page says after a label such as `Found:`, on one line."""
    (found,) = re.findall(
        rf"^{label}: (.+?)\n\n", pages()[code], re.MULTILINE | re.DOTALL
    )
    return " ".join(found.split())


def run(source: str) -> dict[str, object]:
    namespace: dict[str, object] = {"__name__": "page"}
    exec(compile(source, "page.py", "exec"), namespace)
    return namespace


# --- the form of pages ----------------------------------------------------------------


def test_every_code_has_one_page_and_no_page_is_of_an_unknown_code():
    headings = [
        line.removeprefix("## ")
        for _, text in FILES
        for line in text.splitlines()
        if line.startswith("## ")
    ]
    assert headings == list(CODES)
    assert list(pages()) == list(CODES)


@pytest.mark.parametrize(("name", "text"), FILES, ids=[name for name, _ in FILES])
def test_file_has_a_title_one_family_and_lines_of_at_most_88_columns(name, text):
    assert re.match(r"# \w.*\n\n## ", text)
    assert set(re.findall(r"^## SH(\d)", text, re.MULTILINE)) == {name[0]}
    assert [line for line in text.splitlines() if len(line) > 88] == []


@pytest.mark.parametrize("code", CODES)
def test_page_says_what_is_wrong_what_stock_does_and_when_it_is_found(code):
    first = pages()[code].split("\n\n")[0]
    assert len(first.split()) > 8
    assert first.endswith(".")
    assert paragraph(code, "Stock JAX")
    assert paragraph(code, "Found").endswith(".")


# --- the programs of pages ------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(set(RUNS_HERE) - ADVICE))
def test_wrong_program_raises_its_code_alone(code):
    with pytest.raises(StrictHijaxError) as caught:
        run(programs(code)[0])
    findings = caught.value.findings
    assert {finding.code for finding in findings} == {code}
    for finding in findings:
        assert finding.remedies
        assert finding.subject.rpartition(".")[2] in finding.headline
        assert f"explain {code}" in finding.message()


@pytest.mark.parametrize("code", sorted(ADVICE))
def test_advice_is_not_raised(code):
    assert "assert " in programs(code)[0]
    run(programs(code)[0])


@pytest.mark.parametrize(
    ("code", "name", "args"),
    [
        ("SH901", "linear", ({"w": 2.0, "b": 1.0}, 3.0)),
        ("SH902", "cubed", (2.0, 3.0)),
        ("SH903", "square", (3.0,)),
        ("SH905", "times", (2, 3.0)),
        ("SH907", "scaled", (np.uint8(64), 3.0)),
    ],
)
def test_advice_stands_in_the_report_of_check_and_not_where_all_is_right(
    code, name, args
):
    wrong, right = map(run, programs(code))
    (advice,) = check(wrong[name], *args).advice
    assert advice.startswith(f"{code} `page.{name}`")
    assert f"  advice: {advice.splitlines()[0]}" in str(check(wrong[name], *args))
    assert check(right[name], *args).advice == ()


@pytest.mark.parametrize("code", RUNS_HERE)
def test_right_program_runs(code):
    run(programs(code)[1])


ASSERTS_GRADIENT = re.compile(
    r"^ *(assert|grad =) jax\.(jit\(jax\.)?(grad|value_and_grad)\(", re.MULTILINE
)


@pytest.mark.parametrize("code", RUNS_HERE)
def test_right_program_asserts_its_result_and_gradient(code):
    wrong, right = programs(code)
    assert "assert " in right or code == "SH121"  # there the class is all there is
    if "jax.grad(" in wrong:
        assert ASSERTS_GRADIENT.search(right)


@pytest.mark.parametrize("code", sorted(NEEDS_FRESH_PROCESS))
def test_programs_about_backends_do_so_in_a_fresh_process(code, clean_process):
    wrong, right = map(clean_process, programs(code))
    assert f"Error: {code} " in wrong.stderr
    assert (right.returncode, right.stderr) == (0, "")


# --- what stock JAX does --------------------------------------------------------------


def outcome_on_stock(source: str) -> list[str]:
    """The names of what is raised and its bases, or "silent"."""
    try:
        stock.run(source)
    except Exception as error:
        kinds = type(error).__mro__
        return [k.__name__ for k in kinds[: kinds.index(Exception)] or kinds[:1]]
    return ["silent"]


# Of a generator in place of cotangents, stock JAX warns before it raises.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("code", CODES)
def test_page_says_what_stock_jax_does_with_the_wrong_program(code):
    says = paragraph(code, "Stock JAX")
    if says.startswith("no counterpart."):
        assert CODES[code].error == "UsageError"
        return
    names = outcome_on_stock(programs(code)[0])
    assert any(name in says for name in names), names


COMMENT = re.compile(r"^(.+?)  # stock JAX: (.+)$", re.MULTILINE)
SILENT = [code for code in CODES if COMMENT.search(programs(code)[0])]


@pytest.mark.parametrize("code", SILENT)
def test_value_that_stock_jax_gives_is_the_one_in_the_comment(code):
    source = programs(code)[0]
    ((expression, value),) = COMMENT.findall(source)
    namespace = stock.run(source)
    assert str(eval(expression, namespace)) == value


def test_silent_wrong_results_are_shown():
    assert {"SH109", "SH302", "SH311", "SH316", "SH412", "SH417", "SH421", "SH441"} <= {
        *SILENT
    }
    assert {"SH708", "SH712", "SH714", "SH721", "SH723", "SH724"} <= {*SILENT}
