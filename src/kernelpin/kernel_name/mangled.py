"""Mangled C++ names, made readable enough to be classified.

`readable(name)` turns an Itanium-mangled name (`_Z…`: what a Windows trace holds for every CUDA
kernel, and any trace whose demangler gave up) or a Microsoft one (`?…`) into `a::b<c, d>`. It
is no demangler: substitutions are dropped, and so are the function's parameters. Any other name
comes back as it was. It never raises, and takes time linear in the name.

Source: Itanium C++ ABI, chapter 5.1.
"""

from __future__ import annotations

import re

_ITANIUM = re.compile(r"_{1,2}Z(?=[NLS\d])L?")
_BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long",
    "x": "long long", "y": "unsigned long long", "f": "float", "d": "double", "e": "long double",
}  # fmt: skip
_LENGTH = re.compile(r"[0-9]{1,5}")
_LITERAL = re.compile(r"L[a-z](n?[0-9]{1,20})E")
_VALUE = re.compile(r"n?[0-9]{1,20}")
_SUBSTITUTION = re.compile(r"S(?:[0-9A-Z]{0,6}_|[tabsiod])|T[0-9A-Z]{0,6}_")
_LAMBDA_END = re.compile(r"E[0-9]{0,6}_")
_MICROSOFT_WORD = re.compile(r"[A-Za-z_]\w*(?=@)")

# What an open bracket of the mangled name prints when it closes.
_TEMPLATE, _QUIET, _LAMBDA, _TYPED, _VALUED = ">", "", ")#1}", "literal: type", "literal: value"


def readable(name: str) -> str:
    """The name with its identifiers and template arguments in the open, as `a::b<c, d>`."""
    if start := _ITANIUM.match(name):
        return _Itanium(name, start.end()).read()
    if name.startswith("?"):
        first, *rest = _MICROSOFT_WORD.findall(name) or [name]
        return f"{first}<{', '.join(rest)}>" if rest else first
    return name


class _Itanium:
    """One pass over the mangled text with an explicit stack: names from the wild nest deeply."""

    def __init__(self, name: str, at: int) -> None:
        self.name = name
        self.at = at
        self.out: list[str] = []
        self.open: list[str] = []
        self.templates = 0

    def read(self) -> str:
        while self.at < len(self.name):
            before = len(self.open)
            if not self._step():
                break
            if before and not self.open and not self._continues():
                break
        return "".join(self.out).strip()

    def _continues(self) -> bool:
        """Whether what follows still belongs to the function's name, not to its parameters."""
        return self.name.startswith("I", self.at) and self.out[-1:] != [_TEMPLATE]

    def _step(self) -> bool:
        name, at = self.name, self.at
        top = self.open[-1] if self.open else None
        if top == _VALUED and (value := _VALUE.match(name, at)):
            self.at = value.end()
        elif length := _LENGTH.match(name, at):
            self.at = length.end() + int(length[0])
            word = name[length.end() : self.at]
            if word and not word.startswith("_GLOBAL__N_"):
                self._write(word)
            self._typed()
            if top is None and not name.startswith("I", self.at):
                return False  # a plain function: `_Z3fooPf`
        elif literal := _LITERAL.match(name, at):
            self._write(literal[1].replace("n", "-"))
            self.at = literal.end()
        elif substitution := _SUBSTITUTION.match(name, at):
            self.at = substitution.end()
        elif top == _LAMBDA and (end := _LAMBDA_END.match(name, at)):
            self._close()
            self.at = end.end()
        elif name.startswith("Ul", at):
            self._write("{lambda(")
            self.open.append(_LAMBDA)
            self.at += 2
        else:
            self.at += 1
            self._letter(name[at], top)
        return True

    def _letter(self, letter: str, top: str | None) -> None:
        if letter == "I":
            self.out.append("<")
            self.open.append(_TEMPLATE)
            self.templates += 1
        elif letter == "L":
            self.open.append(_TYPED)
        elif letter in "NXJZ":
            self.open.append(_QUIET)
        elif letter == "E":
            self._close()
        elif letter in _BUILTIN and top in (_TEMPLATE, _LAMBDA):
            self._write(_BUILTIN[letter])

    def _close(self) -> None:
        closed = self.open.pop() if self.open else _QUIET
        if closed in (_TEMPLATE, _LAMBDA):
            self.out.append(closed)
            self.templates -= closed == _TEMPLATE
        if closed == _QUIET:
            self._typed()

    def _typed(self) -> None:
        """An enumeration's type has been read; a literal's value follows."""
        if self.open and self.open[-1] == _TYPED:
            self.open[-1] = _VALUED

    def _write(self, word: str) -> None:
        last = self.out[-1] if self.out else "<"
        if last not in ("<", "{lambda("):
            self.out.append(", " if self.templates or last == _TEMPLATE else "::")
        self.out.append(word)
