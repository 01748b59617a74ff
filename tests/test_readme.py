"""The code in the README runs, and raises where it says that it does."""

import re
from pathlib import Path

import pytest

from strict_hijax import StrictHijaxError

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(
    r"^```python(?: raises=(\w+))?\n(.*?)^```",
    README.read_text(),
    re.MULTILINE | re.DOTALL,
)


def test_code_of_the_readme_does_what_it_says():
    namespace = {"__name__": "readme"}
    raised = []
    for code, source in BLOCKS:
        program = compile(source, "README.md", "exec")
        if code:
            with pytest.raises(StrictHijaxError) as caught:
                exec(program, namespace)
            assert code in {finding.code for finding in caught.value.findings}
            raised.append(code)
        else:
            exec(program, namespace)
    assert raised == ["SH311", "SH417", "SH441"]


def test_printed_values_are_those_in_the_comments(capsys):
    namespace = {"__name__": "readme"}
    for code, source in BLOCKS:
        program = compile(source, "README.md", "exec")
        if code:  # later blocks use what it imports
            with pytest.raises(StrictHijaxError):
                exec(program, namespace)
            continue
        capsys.readouterr()
        exec(program, namespace)
        printed = capsys.readouterr().out.splitlines()
        expected = re.findall(
            r"^print\(.*\)  # (.+?)(?:, and.*)?$", source, re.MULTILINE
        )
        assert printed[: len(expected)] == expected


def test_error_shown_is_the_error_raised():
    _code, source = next(block for block in BLOCKS if block[0] == "SH311")
    setup = next(source for code, source in BLOCKS if not code)
    namespace = {"__name__": "__main__"}
    exec(setup, namespace)
    with pytest.raises(StrictHijaxError) as caught:
        exec(compile(source, "ops.py", "exec"), namespace)
    shown = README.read_text().split("```text\n")[1].split("```")[0]
    raised = f"strict_hijax.{type(caught.value).__name__}: {caught.value}"
    assert shown.split() == raised.split()
