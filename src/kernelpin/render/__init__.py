"""Units, dispatch trees, tables: what every message and report is made of. Pure."""

from __future__ import annotations

from kernelpin.render.text import (
    clean,
    count,
    elide,
    family_label,
    format_change,
    format_ns,
    format_us,
    listing,
    pad,
    paint,
    table,
    width_of,
)
from kernelpin.render.tree import kernel_labels, shapes_of, tree

__all__ = [
    "clean",
    "count",
    "elide",
    "family_label",
    "format_change",
    "format_ns",
    "format_us",
    "kernel_labels",
    "listing",
    "pad",
    "paint",
    "shapes_of",
    "table",
    "tree",
    "width_of",
]
