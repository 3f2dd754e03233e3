"""Baseline files as text: one line a figure, and every error with its file and line.

Keys are sorted and the layout depends on the content alone, so that a change shows in a review as
the lines it changed: an object is one key a line; a list of numbers is one line (a re-recorded
baseline changes all of them at once); kernels and recordings are one line each.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

from kernelpin.baselines.entry import (
    SCHEMA,
    DeviceRecord,
    Entry,
    File,
    Where,
    file_problem,
)

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_CONFLICT = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?: .*)?$", re.MULTILINE)
_PATH = re.compile(r"(?: - at `(?:key in )?\$(?P<path>[^`]*)`)$")
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_UNKNOWN_FIELD = re.compile(r"unknown field `(?P<name>[^`]*)`")


class BaselineError(Exception):
    """A baseline file or figure that cannot be used: `source:line: what is wrong, what to do`."""

    def __init__(self, message: str, source: str | None = None, line: int | None = None) -> None:
        place = "" if source is None else f"{source}: " if line is None else f"{source}:{line}: "
        super().__init__(place + message)
        self.message = message
        self.source = source
        self.line = line


def parse(data: bytes, source: str) -> File:
    """The file that `data` holds; BaselineError with its line where it holds none.

    Entries are validated as by `file_problem`; `pending` blocks are left to the caller.
    """
    text = _decode(data, source)
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        line = text.count("\n", 0, conflict.start()) + 1
        raise BaselineError(
            f"merge conflict marker {conflict.group()[:7]}: keep one side and remove the markers",
            source,
            line,
        )
    raw = _load(text, source)
    lines, duplicate = _locate(text)
    if duplicate is not None:
        where, line = duplicate
        raise BaselineError(
            f"key {where[-1]!r} stands here again: it is on line {lines[where]} too; keep one",
            source,
            line,
        )
    return _convert(raw, lines, source)


def encode(file: File) -> bytes:
    """The one text of a file: UTF-8, a newline at the end; BaselineError for what is invalid."""
    found = file_problem(file)
    if found is not None:
        where, message = found
        raise BaselineError(f"refusing to write {_spell(where)}: {message}")
    # `schema` is a default value, and no file is without it.
    content = _plain(file) | {"schema": file.schema}
    try:
        return ("\n".join(_layout(content, "")) + "\n").encode()
    except UnicodeEncodeError as error:
        raise BaselineError(f"refusing to write text that is no Unicode: {error.reason}") from None


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BaselineError(
            f"byte {data[error.start]:#04x} at offset {error.start} is no UTF-8: "
            "restore the file or save it as UTF-8",
            source,
            line,
        ) from None


def _load(text: str, source: str) -> dict[str, Any]:
    if not text.strip():
        raise BaselineError("file is empty: restore it, or delete it and record again", source, 1)

    def refuse(constant: str) -> NoReturn:
        found = re.search(rf"(?<![\w\"]){re.escape(constant)}(?![\w\"])", text)
        line = text.count("\n", 0, found.start()) + 1 if found else None
        raise BaselineError(f"{constant} is no figure", source, line)

    try:
        raw = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        # A line end within a string is another error: an unterminated one reaches the end.
        ends = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        what = "file ends early" if ends else "no JSON"
        raise BaselineError(
            f"{what}: {error.msg} (column {error.colno}); restore the file or mend this line",
            source,
            error.lineno,
        ) from None
    except (RecursionError, ValueError) as error:
        raise BaselineError(f"no baseline file: {error}", source, 1) from None
    if not isinstance(raw, dict):
        raise BaselineError(f"holds a {type(raw).__name__}, not an object", source, 1)
    return raw


def _convert(raw: dict[str, Any], lines: dict[Where, int], source: str) -> File:
    def fail(where: Where, message: str) -> NoReturn:
        raise BaselineError(message, source, _nearest(where, lines))

    schema = raw.get("schema")
    if isinstance(schema, bool) or schema != SCHEMA:
        found = "no schema" if schema is None else f"schema {schema!r}"
        fail(
            ("schema",),
            f"{found}, and this kernelpin reads schema {SCHEMA}: "
            "is the file a baseline of a newer version?",
        )
    unknown = sorted(raw.keys() - {"schema", "device", "entries"})
    if unknown:
        fail((unknown[0],), f"unknown key {unknown[0]!r}: a file has schema, device and entries")
    device = _typed(raw.get("device"), DeviceRecord, ("device",), fail)
    entries = raw.get("entries")
    if not isinstance(entries, dict):
        fail(("entries",), f"entries: expected an object, found {type(entries).__name__}")
    typed = {
        test_id: _typed(entry, Entry, ("entries", test_id), fail)
        for test_id, entry in entries.items()
    }
    file = File(device=device, entries=typed)
    found_problem = file_problem(file)
    if found_problem is not None:
        where, message = found_problem
        fail(where, f"{_spell(where)}: {message}")
    try:
        encode(file)
    except BaselineError as error:
        raise BaselineError(error.message, source, 1) from None
    return file


def _typed(raw: Any, kind: type[Any], where: Where, fail: Any) -> Any:
    try:
        return msgspec.convert(raw, kind)
    except (msgspec.ValidationError, OverflowError) as error:
        message = str(error)
    inner: list[str | int] = []
    found = _PATH.search(message)
    if found is not None:
        message = message[: found.start()]
        for step in _STEP.finditer(found["path"]):
            if step["name"] is None and step["index"] is None:
                inner += _bad_count(raw["counts"])  # a key of a mapping: msgspec does not say which
                break
            inner.append(step["name"] if step["name"] is not None else int(step["index"]))
    field = _UNKNOWN_FIELD.search(message)
    if field is not None:
        inner.append(field["name"])
    place = (*where, *inner)
    return fail(place, f"{_spell(place)}: {message[:1].lower()}{message[1:]}")


def _bad_count(counts: dict[str, Any]) -> tuple[str, ...]:
    """Where in `counts`, the only mapping of an entry, something is of a wrong type."""
    for version, table in counts.items():
        if not isinstance(table, dict):
            return (version,)
        for name, number in table.items():
            if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 2**63:
                return version, name
    return ()


def _spell(where: Where) -> str:
    """A place as a reader says it: the test id, then the field."""
    if where[:1] != ("entries",) or len(where) < 2:
        return ".".join(map(str, where)) or "file"
    field = ".".join(map(str, where[2:]))
    return f"{where[1]}: {field}" if field else str(where[1])


def _nearest(where: Where, lines: dict[Where, int]) -> int:
    """The line of a place, or of the smallest thing around it that stands in the text."""
    while where and where not in lines:
        where = where[:-1]
    return lines.get(where, 1)


def _locate(text: str) -> tuple[dict[Where, int], tuple[Where, int] | None]:
    """Line of every key and value of valid JSON, and the first key that stands twice.

    json and msgspec both take the last of two equal keys, silently, and tell no lines.
    """
    lines: dict[Where, int] = {}
    duplicate: tuple[Where, int] | None = None
    path: list[str | int] = []
    in_object: list[bool] = []
    key_next = False
    line, position = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", position, token.start())
        position = token.start()
        spelt = token.group()
        if spelt in "{[":
            lines.setdefault(tuple(path), line)
            in_object.append(spelt == "{")
            path.append("" if spelt == "{" else 0)
            key_next = spelt == "{"
        elif spelt in "}]":
            in_object.pop()
            path.pop()
            key_next = False
        elif spelt == ",":
            key_next = in_object[-1]
            if not key_next:
                path[-1] = int(path[-1]) + 1
        elif spelt == ":":
            key_next = False
        elif key_next:
            path[-1] = json.loads(spelt)
            where = tuple(path)
            if where in lines and duplicate is None:
                duplicate = where, line
            lines.setdefault(where, line)
        else:
            lines.setdefault(tuple(path), line)
    return lines, duplicate


def _plain(value: Any) -> Any:
    """Structs as dicts without what equals its default.

    msgspec's own `omit_defaults` goes by identity, so that a computed 0.0 would stay.
    """
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        items = ((field, getattr(value, field.name)) for field in fields)
        return {f.name: _plain(v) for f, v in items if f.required or v != f.default}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _layout(value: Any, indent: str) -> list[str]:
    if _is_flat(value):
        return [json.dumps(value, ensure_ascii=False, allow_nan=False)]
    deeper = indent + "  "
    lines: list[str] = []
    if isinstance(value, dict):
        opening, closing = "{", "}"
        for key in sorted(value):
            first, *rest = _layout(value[key], deeper)
            lines += [f"{deeper}{json.dumps(key, ensure_ascii=False)}: {first}", *rest]
            lines[-1] += ","
    else:
        opening, closing = "[", "]"
        for item in value:
            lines.append(
                f"{deeper}{json.dumps(item, ensure_ascii=False, allow_nan=False, sort_keys=True)},"
            )
    lines[-1] = lines[-1].removesuffix(",")
    return [opening, *lines, indent + closing]


def _is_flat(value: Any) -> bool:
    if isinstance(value, dict):
        return not value
    if isinstance(value, (list, tuple)):
        return not any(isinstance(item, (dict, list, tuple)) for item in value)
    return True
