"""What JAX can raise about a rule: from where, of which class, and its text."""

from collections import Counter

from .sites import FILES, Site, sites


def raises() -> dict[str, int]:
    """Each `raise` and `assert` of the functions concerned, and how many are alike."""
    of_api = [site for site in sites("api.py") if "tuptree" in site.function]
    found = [site for file in FILES for site in sites(file)]
    return dict(sorted(Counter(map(_line, found + of_api)).items()))


def _line(site: Site) -> str:
    text = f": {site.text}" if site.text else ""
    return f"{site.file}, {site.function}: {site.error}{text}"
