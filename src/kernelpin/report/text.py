"""Names and sentences as markdown that shows them as the very text they are."""

from __future__ import annotations

import re

from kernelpin.render import clean, elide

_PLAIN = " .,;:/=+(){}%\"'?–—…×µ·→−-"  # neither markdown nor HTML reads these


def in_code(name: str, limit: int = 160) -> str:
    """A name as inline code, in a table too; longer ones lose their middle.

    Not a backtick span: those cannot hold every backtick, pipe and backslash. What markdown or
    HTML would read is written as a character reference, what does not print as its escape.
    """
    return f"<code>{_literal(elide(name, limit), keep='[]@#$!')}</code>"


def in_text(text: str, limit: int = 500) -> str:
    """A sentence that may hold names, as prose: no markup, no link, no mention of a user."""
    return _literal(elide(text, limit)).replace("&#64;", "&#64;&#8288;")


def in_item(text: str, limit: int = 500) -> str:
    """A sentence as a list's item, that begins no list of its own."""
    shown = in_text(text, limit)
    return shown if shown[:1].isalpha() else re.sub(r"^[^&]", _reference, shown)


def fenced(text: str, limit: int = 6_000) -> str:
    """Several lines as a code block that none of them can end."""
    if len(text) > limit:
        text = f"{text[:limit]}\n… {len(text) - limit} characters more"
    lines = [clean(line.expandtabs()) for line in text.splitlines()]
    runs = [len(run) for line in lines for run in re.findall("`+", line)]
    fence = "`" * max(3, 1 + max(runs, default=0))
    return "\n".join((f"{fence}text", *lines, fence)) + "\n"


def _literal(text: str, keep: str = "") -> str:
    plain = re.escape(_PLAIN + keep)
    escaped = re.sub(rf"[^\w{plain}]", _reference, clean(text))
    # An underscore inside a word is no markup, and kernel names are full of them.
    escaped = re.sub(r"(?<![^\W_])_|_(?![^\W_])", _reference, escaped)
    # Links: [text](target), www.name, scheme://name; images: ![
    return re.sub(r"(?<=\])\(|(?i:(?<=www))\.|:(?=//)|!(?=\[)", _reference, escaped)


def _reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"
