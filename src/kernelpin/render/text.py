"""Units, names, dispatch trees and tables as plain text: what every message is made of. Pure.

Nothing here raises on odd input: a message about a failure must not fail itself.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Sequence

UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))
DIGITS = 4

# ANSI codes by what they stand for, so that a caller says "offender" and not "red".
STYLES = {"offender": "1;31", "heading": "1", "quiet": "2", "kernel": "36", "gain": "32"}

FAMILY_LABELS = {
    "gemm": "GEMM",
    "gemv": "GEMV",
    "splitk_reduce": "split-K reduction",
    "gather_scatter": "gather/scatter",
    "triton_pointwise": "Triton pointwise",
    "triton_reduction": "Triton reduction",
    "triton_template": "Triton template",
    "triton": "Triton",
}


def format_ns(ns: float) -> str:
    """A time in four digits and the unit that suits it: `736 ns`, `18.24 µs`, `1.203 ms`.

    Monotone: a longer time never reads shorter. Below 1 µs trailing zeros are dropped, since a
    trace counts whole nanoseconds.

    >>> format_ns(18_240)
    '18.24 µs'
    """
    if not math.isfinite(ns):
        return str(float(ns))
    sign, size = ("-", -ns) if ns < 0 else ("", ns)
    # Rounded before the unit is chosen: 999.96 µs is 1.000 ms, never 1000 µs.
    size = float(f"{float(size):.{DIGITS - 1}e}")
    unit, scale = next((u for u in reversed(UNITS) if size >= u[1]), UNITS[0])
    value = size / scale
    if unit == "ns":
        return f"{sign}{value:.{DIGITS}g} ns" if value >= 1e-4 else f"{sign}{value:g} ns"
    whole = len(f"{int(value)}")
    return f"{sign}{value:.{max(0, DIGITS - whole)}f} {unit}"


def format_us(us: float) -> str:
    """A time given in microseconds, as `format_ns` writes it."""
    return format_ns(us * 1e3)


def format_change(ratio: float) -> str:
    """Now over before, as a signed change: 1.163 is `+16.3 %`.

    >>> format_change(0.952)
    '-4.8 %'
    """
    if not math.isfinite(ratio):
        return str(float(ratio))
    percent = round((ratio - 1.0) * 100.0, 1)
    return f"{percent + 0.0:+.1f} %"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """`no kernel`, `1 kernel`, `2 kernels`."""
    if n == 1:
        return f"1 {noun}"
    many = plural or f"{noun}s"
    return f"no {noun}" if n == 0 else f"{n} {many}"


def listing(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def family_label(family: str) -> str:
    """A family as a message names it: `GEMM`, `elementwise`, `Triton pointwise`."""
    return FAMILY_LABELS.get(family, family)


def clean(text: str) -> str:
    """The text on one line and harmless to a terminal: what does not print is written as an escape.

    Names come from files: control characters, line ends, bidirectional overrides and lone
    surrogates would otherwise reach the terminal, or make the message itself unprintable.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def elide(text: str, width: int = 56) -> str:
    """The text in at most `width` characters, its middle replaced by `…`.

    Kernel names differ at both ends; the cut moves outward to an underscore where one is near.

    >>> elide("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_splitK_TNT", 32)
    'nvjet_sm90_tst_64x8_…_splitK_TNT'
    """
    if len(text) <= width:
        return text
    if width < 3:
        return text[: max(0, width)]
    near = max(1, width // 4)
    longest = len(text) - (width - 1) * 2 // 5
    end = text.find("_", longest, longest + near)
    tail = text[end if end >= 0 else longest :]
    head = width - 1 - len(tail)
    cut = text.rfind("_", head - near, head) + 1 or head
    return f"{text[:cut]}…{tail}"


def width_of(text: str) -> int:
    """How many terminal columns the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def pad(text: str, width: int, right: bool = False) -> str:
    """The text filled with spaces to `width` columns, at its end or (`right`) before it."""
    space = " " * max(0, width - width_of(text))
    return space + text if right else text + space


def paint(text: str, style: str, color: bool) -> str:
    """The text in a style of `STYLES`, where colour is wanted."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if color and text else text


def table(rows: Sequence[Sequence[str]], markdown: bool = False) -> list[str]:
    """Rows as lines with aligned columns; the first row is the heading.

    A column is aligned right when every cell below the heading starts like a figure. In
    `markdown`, cells are escaped: a name with `|`, `<` or a line end shows as text.
    """
    if not rows:
        return []
    escaped = _escape_markdown if markdown else clean
    columns = max(len(row) for row in rows)
    cells = [[escaped(c) for c in row] + [""] * (columns - len(row)) for row in rows]
    below = cells[1:]
    right = [bool(below) and all(_is_figure(row[i]) for row in below) for i in range(columns)]
    if markdown:
        rule = ["---:" if r else "---" for r in right]
        return [f"| {' | '.join(row)} |" for row in (cells[0], rule, *below)]
    widths = [max(width_of(row[i]) for row in cells) for i in range(columns)]
    return [
        "  ".join(pad(c, w, r) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in cells
    ]


def _is_figure(cell: str) -> bool:
    return cell in ("", "-", "–", "—") or cell.lstrip("+-−<≤≥~ ")[:1].isdigit()


def _escape_markdown(text: str) -> str:
    plain = html.escape(clean(text.replace("\r\n", " ").replace("\n", " ")), quote=False)
    return "".join(f"\\{c}" if c in "\\|`*_[]~#" else c for c in plain)
