"""Plain text of at most 100 columns."""

import textwrap

WIDTH = 100


def heading(title: str) -> str:
    """A title that opens a part."""
    return f"\n{'=' * WIDTH}\n{title}\n{'=' * WIDTH}"


def wrapped(text: str, indent: str = "", hanging: str = "") -> str:
    """A paragraph, indented, and all lines but the first one further in."""
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def quoted(text: str, margin: str = "    | ") -> str:
    """Lines as they are, behind a margin; what is too long goes on further in."""
    lines = []
    for line in text.rstrip().splitlines():
        inner = line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(
            line.strip(),
            WIDTH,
            initial_indent=margin + inner,
            subsequent_indent=margin + inner + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        ) or [margin.rstrip()]
    return "\n".join(lines)


def table(rows: list[tuple[str, ...]], indent: str = "  ") -> str:
    """Columns as wide as their widest entry; the last one is wrapped."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    hanging = " " * (sum(widths) + 2 * len(widths))
    lines = []
    for *cells, last in rows:
        row = "".join(f"{c:{w}}  " for c, w in zip(cells, widths, strict=True))
        rest = wrapped(last, indent + hanging)
        lines.append((indent + row + rest.lstrip()).rstrip())
    return "\n".join(lines)
