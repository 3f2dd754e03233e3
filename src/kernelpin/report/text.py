"""Names and sentences as markdown that shows them as the very text they are."""

from __future__ import annotations

import re

# Neither markdown nor HTML reads these; a control character's picture is among them.
_PLAIN = " .,;:/=+(){}%\"'?–—…×µ·→−-" + "".join(map(chr, range(0x2400, 0x2422)))


def in_code(name: str, limit: int = 160) -> str:
    """A name as inline code, in a table too; longer ones lose their middle.

    Not a backtick span: those cannot hold every backtick, pipe and backslash. What markdown or
    HTML would read is written as a character reference, a control character as its picture.
    """
    return f"<code>{_literal(elided(name, limit), keep='[]@#$!')}</code>"


def in_text(text: str, limit: int = 500) -> str:
    """A sentence that may hold names, as prose: no markup, no link, no mention of a user."""
    return _literal(elided(text, limit)).replace("&#64;", "&#64;&#8288;")


def in_item(text: str, limit: int = 500) -> str:
    """A sentence as a list's item, that begins no list of its own."""
    shown = in_text(text, limit)
    return shown if shown[:1].isalpha() else re.sub(r"^[^&]", _reference, shown)


def fenced(text: str, limit: int = 6_000) -> str:
    """Several lines as a code block that none of them can end."""
    if len(text) > limit:
        text = f"{text[:limit]}\n… {len(text) - limit} characters more"
    lines = [_printable(line.expandtabs()) for line in text.splitlines()]
    runs = [len(run) for line in lines for run in re.findall("`+", line)]
    fence = "`" * max(3, 1 + max(runs, default=0))
    return "\n".join((f"{fence}text", *lines, fence)) + "\n"


def elided(text: str, limit: int) -> str:
    """Long text without its middle: both ends of a kernel's name tell kernels apart."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def _literal(text: str, keep: str = "") -> str:
    plain = re.escape(_PLAIN + keep)
    escaped = re.sub(rf"[^\w{plain}]", _reference, _printable(text))
    # An underscore inside a word is no markup, and kernel names are full of them.
    escaped = re.sub(r"(?<![^\W_])_|_(?![^\W_])", _reference, escaped)
    # Links: [text](target), www.name, scheme://name; images: ![
    return re.sub(r"(?<=\])\(|(?i:(?<=www))\.|:(?=//)|!(?=\[)", _reference, escaped)


def _reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def _printable(text: str) -> str:
    """One line: control characters as their picture (␊), what is no text as its escape."""
    return "".join(map(_picture, text.encode("utf-8", "backslashreplace").decode()))


def _picture(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"\\u{code:04x}"
