"""A newer JAX is taken without a word; one that does not fit fails the import."""

import pytest

from tests.test_import_safety import CleanProcess

VERSION = "jax.__version__, jax.__version_info__ = "
TAKEN = "strict_hijax.StrictHiPrim; print('imported')"


def importing(change: str) -> str:
    return f"import jax\n{change}\nimport strict_hijax\n{TAKEN}"


def test_a_newer_jax_is_imported_without_a_warning(clean_process: CleanProcess) -> None:
    code = importing(f"{VERSION} '99.1.0', (99, 1, 0)")
    done = clean_process(args=("-W", "error", "-c", code))
    assert (done.stdout, done.stderr) == ("imported\n", "")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (f"{VERSION} '0.11.1', (0, 11, 1)", "it is too old"),
        ("del jax._src.core.typematch", "cannot import name 'typematch'"),
        ("del jax._src.hijax.HiPrim", "'HiPrim'"),
        ("del jax._src.tree_util.keystr", "'jax._src.tree_util' has no attribute"),
        ("jax._src.interpreters.ad.primitive_jvps.clear()", "(call_hi_primitive)"),
    ],
)
def test_a_jax_that_does_not_fit_fails_the_import_with_one_sentence(
    clean_process: CleanProcess, change: str, reason: str
) -> None:
    done = clean_process(importing(f"import jax.experimental.hijax\n{change}"))
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: strict_hijax does not support jax ")
    assert reason in last
    assert "tested up to" in last
