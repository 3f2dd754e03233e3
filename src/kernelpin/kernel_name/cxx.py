"""A C++ kernel's signature, taken apart: its qualified name, its template arguments, its dtype."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NAMELESS = re.compile(
    r"(?:\(anonymous namespace\)|<unnamed>|`anonymous namespace'|\{anonymous\}|_GLOBAL__N_\w+)::"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")

DTYPES = {
    "bf16": "bf16", "bfloat16": "bf16", "bfloat16_t": "bf16", "__nv_bfloat16": "bf16",
    "fp16": "f16", "f16": "f16", "half": "f16", "half_t": "f16", "__half": "f16",
    "fp32": "f32", "f32": "f32", "float": "f32", "tf32": "tf32", "tfloat32_t": "tf32",
    "fp64": "f64", "f64": "f64", "double": "f64", "complex": "c64",
    "int8": "i8", "s8": "i8", "i8": "i8", "u8": "u8", "s4": "i4",
    "e4m3": "e4m3", "float8_e4m3fn": "e4m3", "float8_e4m3fnuz": "e4m3", "float_e4m3_t": "e4m3",
    "__nv_fp8_e4m3": "e4m3", "e5m2": "e5m2", "float8_e5m2": "e5m2", "float8_e5m2fnuz": "e5m2",
    "float_e5m2_t": "e5m2", "__nv_fp8_e5m2": "e5m2", "e2m1": "e2m1",
}  # fmt: skip
_INTEGERS = {"int": "i32", "long": "i64", "short": "i16"}
_BYTES = re.compile(r"\b(un)?signed char\b")
_UNSIGNED = re.compile(r"\bunsigned (?:int|long|short)\b")  # sizes and offsets, never operands
_LAMBDA = re.compile(r"\{lambda\(([^(){}]+)\)#\d+\}")
# The launcher's own lambda takes an index: `gpu_kernel_impl<F>(…)::{lambda(int)#1}`.
_LAUNCHER = re.compile(
    r"(?:gpu_kernel_impl(?:_nocast)?|gpu_index_kernel|_cuda_scatter_gather_internal_kernel)(?=<)"
)


@dataclass(frozen=True, slots=True)
class Signature:
    """`void a::b<c, d>(e)` as `head` `a::b`, `template` `c, d`; `bare`: nothing but a name."""

    head: str
    template: str
    bare: bool
    words: tuple[str, ...] = field(default=())  # the template's identifiers, in order

    @property
    def last(self) -> str:
        """The head without its namespaces."""
        return self.head.rpartition("::")[2] or self.head


def signature(name: str) -> Signature:
    """Take a readable name apart; whatever it is, some head comes out."""
    bare = _IDENTIFIER.fullmatch(name) is not None
    if bare:
        return Signature(name, "", True)
    head, template = _split(_NAMELESS.sub("", name))
    return Signature(head, template, False, tuple(_WORD.findall(template)))


def _split(name: str) -> tuple[str, str]:
    """Drop the return type and the parameters: they are told from the name by depth-0 marks."""
    depth = start = 0
    opened = closed = end = -1
    for at, char in enumerate(name):
        if char == "(" and depth == 0 and at > start:
            end = at
            break
        if char in "<({":
            if depth == 0 and char == "<":
                opened, closed = at, -1
            depth += 1
        elif char in ">)}" and depth > 0:
            depth -= 1
            if depth == 0:
                closed = at
        elif char == " " and depth == 0 and name[at + 1 : at + 2] not in ("[", ""):
            start, opened = at + 1, -1
    if opened <= start:
        return name[start : end if end >= 0 else len(name)].strip(), ""
    inside = name[opened + 1 : closed if closed > opened else len(name)]
    return name[start:opened].strip(), inside


def dtype_in(template: str) -> str | None:
    """The type that a template computes in: its functor's argument if told, floats before ints."""
    if launcher := _LAUNCHER.search(template):
        template = _split(template[launcher.start() :])[1]
    if "OpaqueType" in template:
        return None  # moved as bytes, whatever they are
    lambdas = _LAMBDA.findall(template)
    for text in (lambdas[-1], template) if lambdas else (template,):
        words = _WORD.findall(_UNSIGNED.sub("", text))
        for table in (DTYPES, _INTEGERS):
            for word in words:
                if found := table.get(word.lower()):
                    return found
        if byte := _BYTES.search(text):
            return "u8" if byte[1] else "i8"
        if "bool" in words:
            return "bool"
    return None
