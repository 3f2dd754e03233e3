"""Mangled C++ names, made readable enough to be classified.

`readable(name)` turns an Itanium-mangled name (`_Z…`: what a Windows trace holds for every CUDA
kernel, and any trace whose demangler gave up) or a Microsoft one (`?…`) into `a::b<c, d>`. It
is no demangler: substitutions are dropped, and so are the function's parameters. Any other name
comes back as it was. It never raises, and runs in linear time.

Source: Itanium C++ ABI, chapter 5.1.
"""

from __future__ import annotations

import re

_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long",
    "x": "long long", "y": "unsigned long long", "f": "float", "d": "double", "e": "long double",
}  # fmt: skip
_SOURCE_NAME = re.compile(r"\d{1,5}")
_LITERAL = re.compile(r"L([a-z])(n?\d{1,20})E")
_SUBSTITUTION = re.compile(r"S(?:[0-9A-Z]{0,6}_|[tabsiod])|T[0-9A-Z]{0,6}_")
_MICROSOFT_WORD = re.compile(r"[A-Za-z_]\w*(?=@)")


def readable(name: str) -> str:
    """The name with its identifiers and template arguments in the open, as `a::b<c, d>`."""
    if name.startswith(("_ZN", "_ZL", "__ZN")) or re.match(r"_Z\d", name):
        return _itanium(name)
    if name.startswith("?"):
        return _microsoft(name)
    return name


def _itanium(name: str) -> str:
    at = name.index("_Z") + 2
    out: list[str] = []
    closers: list[str] = []  # what each open bracket of the mangled name prints when it closes
    while at < len(name):
        if name[at] in "0123456789":
            word, at = _source_name(name, at)
            if word and not word.startswith("_GLOBAL__N_"):
                _append(out, word)
        elif literal := _LITERAL.match(name, at):
            _append(out, literal[2].replace("n", "-"))
            at = literal.end()
        elif substitution := _SUBSTITUTION.match(name, at):
            at = substitution.end()
        else:
            letter = name[at]
            at += 1
            if letter == "I":
                out.append("<")
                closers.append(">")
            elif letter in "NXJ":
                out.append(" ")
                closers.append("")
            elif letter == "E":
                closing = closers.pop() if closers else ""
                if closing:
                    out.append(closing)
                if not closers:
                    break  # the function's own name is over; its parameters follow
            elif letter in _BUILTIN and closers and closers[-1] == ">":
                _append(out, _BUILTIN[letter])
        if not closers and out and at < len(name) and name[at] not in "I0123456789NL":
            break
    return "".join(out).strip()


def _source_name(name: str, at: int) -> tuple[str, int]:
    """The identifier whose length stands at `at`, and where it ends."""
    match = _SOURCE_NAME.match(name, at)
    if match is None:  # digits of another script never get here
        return "", at + 1
    end = match.end() + int(match[0])
    return name[match.end() : end], end


def _append(out: list[str], word: str) -> None:
    last = out[-1] if out else ""
    if last in ("", "<", " "):
        out.append(word)
    elif last == ">":
        out.append(", " + word)
    else:
        inside = "<" in out
        out.append(("::" if not inside else ", ") + word)


def _microsoft(name: str) -> str:
    words = _MICROSOFT_WORD.findall(name[:10_000])
    if not words:
        return name
    first, *rest = words
    return f"{first}<{', '.join(rest)}>" if rest else first
