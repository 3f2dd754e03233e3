"""Almost-JSON, as profilers write it, made JSON again.

Known: a bare `inf` or `NaN` (as a bandwidth over 0 ns), quotes that a label brought along
unescaped (torch 2.13), backslashes of a Windows path, control characters, a byte order mark,
a trailing comma, bytes that are no UTF-8. Everything else is left for the decoder to refuse.
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field

__all__ = ["Repaired", "Unrepairable", "mend", "mend_at"]

# How far behind its start the end of a broken string is looked for.
LONGEST_STRING = 1 << 16

_SOUND = re.compile(
    rb"""(?:
      [ \t\r\n{}\[\]:]++
    | ,(?![ \t\r\n]*+[\]}])
    | "(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u(?:
          (?![dD][89a-fA-F])[0-9a-fA-F]{4}
        | [dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}
      )))*+"(?=[ \t\r\n]*+(?:[:,}\]]|\Z))
    | -?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][-+]?\d++)?(?![\w.+-])
    | (?:true|false|null)\b
    )*+""",
    re.VERBOSE,
)
_SLOPPY_STRING = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(?=[ \t\r\n]*+[:,}\]])', re.DOTALL)
_NO_NUMBER = re.compile(
    rb"[-+]?(?:nan(?:\([^()]{0,16}\))?|inf(?:inity)?)(?=[\s,}\]])", re.IGNORECASE
)
_NAME = re.compile(rb'"name"[ \t\r\n]*+:[ \t\r\n]*+"')
# The end of a string whose quotes are not escaped: what follows is the event's next field, or
# the event's own end.
_TRUE_END = re.compile(
    rb'"(?=[ \t\r\n]*+(?:,[ \t\r\n]*+"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"[ \t\r\n]*+:'
    rb"|\}[ \t\r\n]*+(?:,[ \t\r\n]*+\{|\][ \t\r\n]*+[,}])))"
)
# What is left where a file ends within a token.
_CUT_OFF = re.compile(rb'(?:"(?:[^"\\]++|\\.)*+\\?|[-+.\w]*+)\Z', re.DOTALL)
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))?')


class Unrepairable(Exception):
    """Nothing known: the byte offset and what stands there."""

    def __init__(self, offset: int, cause: str) -> None:
        super().__init__(cause)
        self.offset = offset
        self.cause = cause


@dataclass(slots=True)
class Repaired:
    """The JSON, and what was done to make it so."""

    data: bytes
    # What was repaired → the byte offsets in the original, in order.
    found: dict[str, list[int]] = field(default_factory=dict)
    # Where the repaired text stands in the original: (offset here, offset there) of each piece.
    _here: list[int] = field(default_factory=lambda: [0])
    _there: list[int] = field(default_factory=lambda: [0])

    def original(self, offset: int) -> int:
        """The offset in the file as it was read."""
        piece = bisect_right(self._here, offset) - 1
        return self._there[piece] + offset - self._here[piece]

    def notes(self) -> list[str]:
        """One phrase a kind of repair, with the place of the first."""
        return [
            f"{what} at byte {places[0]}"
            + (f" (and at {len(places) - 1} more places)" if len(places) > 1 else "")
            for what, places in self.found.items()
        ]


def mend(data: bytes) -> Repaired:
    """Repair what is known to go wrong; raise Unrepairable at the first thing that is not."""
    data, found, shift = _as_utf8(data)
    pieces: list[bytes] = []
    here, there = [0], [shift]
    length = at = 0
    while True:
        sound = _SOUND.match(data, at)
        end = at if sound is None else sound.end()
        if end == len(data):
            pieces.append(data[at:])
            break
        try:
            what, begin, resume, replacement = _diagnose(data, at, end)
        except Unrepairable as fault:
            raise Unrepairable(fault.offset + shift, fault.cause) from None
        found.setdefault(what, []).append(begin + shift)
        pieces += (data[at:begin], replacement)
        length += begin - at + len(replacement)
        at = resume
        here.append(length)
        there.append(at + shift)
    return Repaired(b"".join(pieces), found, here, there)


def mend_at(repaired: Repaired, offset: int) -> Repaired | None:
    """Escape the quotes of the name before an offset at which the decoder gave up; None: none."""
    data = repaired.data
    string = _requote(data, 0, offset)
    if string is None:
        return None
    begin, resume, replacement = string
    found = {what: list(places) for what, places in repaired.found.items()}
    found.setdefault("quotes inside a string", []).append(repaired.original(begin))
    pieces = list(zip(repaired._here, repaired._there, strict=True))
    grown = len(replacement) - (resume - begin)
    moved = [
        *((here, there) for here, there in pieces if here <= begin),
        (resume + grown, repaired.original(resume)),
        *((here + grown, there) for here, there in pieces if here > resume),
    ]
    return Repaired(
        data[:begin] + replacement + data[resume:],
        found,
        [here for here, _ in moved],
        [there for _, there in moved],
    )


def _as_utf8(data: bytes) -> tuple[bytes, dict[str, list[int]], int]:
    """The text as UTF-8 without a mark, and by how much its offsets were shifted."""
    found: dict[str, list[int]] = {}
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(mark):
            found["UTF-16 instead of UTF-8"] = [0]
            return data.decode(encoding, "replace").encode(), found, 0
    shift = 0
    if data.startswith(codecs.BOM_UTF8):
        found["a byte order mark"] = [0]
        shift = len(codecs.BOM_UTF8)
        data = data[shift:]
    try:
        data.decode()
    except UnicodeDecodeError as error:
        found["bytes that are no UTF-8"] = [error.start + shift]
        # One byte each, so that offsets stay what they were.
        data = data.decode("ascii", "replace").replace("\ufffd", "?").encode()
    return data, found, shift


def _diagnose(data: bytes, sound_from: int, at: int) -> tuple[str, int, int, bytes]:
    """What is wrong at an offset, which bytes to replace (from, to), and by what."""
    here = data[at : at + 1]
    if here == b",":
        return "a trailing comma", at, at + 1, b""
    if here == b'"':
        sloppy = _SLOPPY_STRING.match(data, at)
        if sloppy:
            return _string_fault(sloppy[1]), at, sloppy.end(), _quoted(sloppy[1])
        end = _TRUE_END.search(data, at + 1, at + LONGEST_STRING)
        if end:
            content = data[at + 1 : end.start()]
            what = "quotes inside a string" if b'"' in content else _string_fault(content)
            return what, at, end.end(), _quoted(content)
        raise _unrepairable(data, at, "a string that does not end where it should")
    no_number = _NO_NUMBER.match(data, at)
    if no_number:
        return "a bare NaN or infinity", at, no_number.end(), b"null"
    if here < b" ":
        return "a control character", at, at + 1, b" "
    # A quote in a name may have looked like its end.
    string = _requote(data, sound_from, at)
    if string:
        return "quotes inside a string", *string
    raise _unrepairable(data, at, f"unexpected {data[at : at + 20].decode(errors='replace')!r}")


def _unrepairable(data: bytes, at: int, cause: str) -> Unrepairable:
    if _CUT_OFF.match(data, at):
        return Unrepairable(len(data), "the file is truncated")
    return Unrepairable(at, cause)


def _requote(data: bytes, begin: int, at: int) -> tuple[int, int, bytes] | None:
    """The last name that starts before an offset, taken to its true end behind it."""
    names = list(_NAME.finditer(data, max(begin, at - LONGEST_STRING), at))
    if not names:
        return None
    start = names[-1].end() - 1
    end = _TRUE_END.search(data, start + 1, at + LONGEST_STRING)
    # A name that ended before the fault has nothing to do with it.
    if end is None or end.start() < at:
        return None
    return start, end.end(), _quoted(data[start + 1 : end.start()])


def _string_fault(content: bytes) -> str:
    return "a control character" if any(byte < 0x20 for byte in content) else "a bad escape"


def _quoted(content: bytes) -> bytes:
    """A string's content as JSON, its own good escapes kept."""
    text = content.decode(errors="replace")
    halves = _ESCAPE.sub(_unescape, text)
    # Half a character is no text; two halves are one character.
    whole = halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.dumps(whole).encode()


def _unescape(match: re.Match[str]) -> str:
    if match[1] or match[2]:
        try:
            value: str = json.loads(f'"{match[0]}"')
        except ValueError:
            return match[0]
        return value
    return "\\"
