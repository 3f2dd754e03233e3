"""A dispatch tree as text: an op or a step, what it dispatched, and the kernels that ran for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

from kernelpin.kernel_name import decode_kernel_name
from kernelpin.render.text import clean, count, elide, format_ns, pad, paint, width_of
from kernelpin.trace import Call, Kernel, Op, Step

Marked: TypeAlias = Op | Kernel | Call

# Indentation stops growing here: a trace of a recursive program nests thousands deep.
MAX_INDENT = 40
# Times stand under each other up to here; beyond, each follows its name.
MAX_COLUMN = 110

DTYPES = {
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "float": "fp32",
    "double": "fp64",
    "long int": "i64",
    "long": "i64",
    "int": "i32",
    "short int": "i16",
    "short": "i16",
    "signed char": "i8",
    "unsigned char": "u8",
    "bool": "bool",
}


@dataclass(slots=True, eq=False)
class _Node:
    label: str
    start_ns: int
    op: Op | None = None
    kernel: Kernel | None = None
    detail: str = ""
    note: str = ""
    count: int = 1
    durations: list[int] = field(default_factory=list)
    children: list[_Node] = field(default_factory=list)
    key: int = -1
    n_kernels: int = 0
    shown: bool = True


def tree(
    scope: Op | Step,
    mark: Collection[Marked] | Mapping[Marked, str] = (),
    note: str = "unexpected",
    *,
    ops: bool = False,
    focus: bool = True,
    limit: int | None = 40,
    width: int | None = 56,
    color: bool = False,
) -> list[str]:
    """The scope's dispatch tree, a line an op or kernel, in the order of launch.

    Only ops that launched something or are marked are drawn; `ops=True` draws all. Siblings that
    look the same are drawn once with `× n`, and their time is the median of one. What is in `mark`
    (ops, kernels, runtime calls; a mapping gives each its own words) ends in `← note`; with
    `focus`, branches without a mark are then cut to one line. Beyond `limit` lines, what is neither
    marked nor above a mark gives way to `…`, deepest first. Names are shortened to
    `width`; with None, they are written in full.
    """
    notes = dict(mark) if isinstance(mark, Mapping) else dict.fromkeys(mark, note)
    root = _build(scope, notes, ops, width)
    order = _preorder(root)
    _add_shapes(root)
    _fold(order)
    order = _preorder(root)
    if notes and focus:
        _focus(root, order)
        order = [node for node in order if node.shown]
    if limit is not None and len(order) > limit:
        _choose(root, limit)
    return _layout(root, color)


def shapes_of(op: Op) -> str:
    """An op's tensor arguments: `bf16[16,4096] × bf16[1,4096]`; empty where none were recorded."""
    arguments = []
    dtypes = op.dtypes
    for i, shape in enumerate(op.shapes):
        dtype = dtypes[i] if i < len(dtypes) else ""
        if shape and isinstance(shape[0], tuple):
            arguments.append(count(len(shape), "tensor"))
            continue
        # Neither a scalar, a list of numbers nor a 0-dim tensor has a shape: the dtype tells.
        if not shape and dtype not in DTYPES and not dtype.startswith("c10::"):
            continue
        short = DTYPES.get(dtype, dtype.removeprefix("c10::").lower())
        arguments.append(f"{clean(short)}[{clean(','.join(map(str, shape)))}]")
    if len(arguments) > 4:
        arguments[4:] = ["…"]
    return " × ".join(arguments)


def _build(scope: Op | Step, notes: Mapping[Marked, str], ops: bool, width: int | None) -> _Node:
    root = _Node(_label(scope.name, width), scope.start_ns)
    nodes: dict[Op, _Node] = {}
    if isinstance(scope, Op):
        root.op, root.note = scope, notes.get(scope, "")
        nodes[scope] = root

    def is_scope(op: Op) -> bool:
        """A step is an op of its own trace too: its label."""
        return op.start_ns == scope.start_ns and op.name == scope.name

    def node_of(op: Op | None) -> _Node:
        above: list[Op] = []
        while op is not None and op not in nodes and not is_scope(op):
            above.append(op)
            op = op.parent
        node = nodes.get(op, root) if op is not None else root
        for missing in reversed(above):
            label = _label(missing.name, width)
            below = _Node(label, missing.start_ns, op=missing, note=notes.get(missing, ""))
            nodes[missing] = below
            node.children.append(below)
            node = below
        return node

    kernels = tuple(scope.kernels)
    labels = kernel_labels((kernel.name for kernel in kernels), width)
    if ops:
        for op in scope.ops():
            node_of(op)
    for kernel in kernels:
        launch = kernel.launch
        node_of(kernel.op).children.append(
            _Node(
                labels[kernel.name],
                kernel.start_ns if launch is None else launch.start_ns,
                kernel=kernel,
                note=notes.get(kernel, ""),
                detail="implausible record" if kernel.suspect else "",
                durations=[kernel.duration_ns],
                n_kernels=int(kernel.category == "kernel"),
            )
        )
    drawn = set(kernels)
    for view, words in notes.items():
        if isinstance(view, Op):
            node_of(view)
        elif view not in drawn:
            node_of(view.op).children.append(_Node(clean(view.name), view.start_ns, note=words))
    return root


def kernel_labels(kernel_names: Iterable[str], width: int | None = 56) -> dict[str, str]:
    """A short label for each full kernel name; names that differ have labels that differ.

    Where shortening makes several alike (templates of one kernel), they are numbered.
    """
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(kernel_names):
        telling = name if width is None else decode_kernel_name(name).short or name
        label = _label(telling, width)
        alike.setdefault(label, []).append(name)
    return {
        name: label if len(names) == 1 else f"{label} #{number}"
        for label, names in alike.items()
        for number, name in enumerate(names, 1)
    }


def _label(name: str, width: int | None) -> str:
    return clean(name) if width is None else elide(clean(name), width)


def _preorder(root: _Node) -> list[_Node]:
    order, stack = [], [root]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed(node.children))
    return order


def _add_shapes(root: _Node) -> None:
    """Shapes stand at the topmost op that has any: further down they only repeat."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.op is not None and (shapes := shapes_of(node.op)):
            node.detail = shapes
        else:
            stack.extend(node.children)


def _fold(order: list[_Node]) -> None:
    keys: dict[tuple[object, ...], int] = {}
    for node in reversed(order):  # children before their parents
        node.children.sort(key=lambda child: child.start_ns)
        runs: list[_Node] = []
        for child in node.children:
            if runs and runs[-1].key == child.key:
                _merge(runs[-1], child)
            else:
                runs.append(child)
        node.children = runs
        name = node.kernel.name if node.kernel is not None else node.label
        what = (name, node.kernel is None, node.detail, node.note)
        node.key = keys.setdefault((*what, *((c.key, c.count) for c in runs)), len(keys))
        node.n_kernels += sum(child.n_kernels for child in runs)


def _merge(into: _Node, other: _Node) -> None:
    into.count += other.count
    into.n_kernels += other.n_kernels
    pairs = [(into, other)]
    while pairs:
        a, b = pairs.pop()
        a.durations.extend(b.durations)
        pairs.extend(zip(a.children, b.children, strict=True))


def _focus(root: _Node, order: list[_Node]) -> None:
    """Hide what is inside the branches that hold no mark and lie under none."""
    holds: set[int] = set()
    for node in reversed(order):
        if node.note or any(id(child) in holds for child in node.children):
            holds.add(id(node))
    stack = [(root, True, False)]
    while stack:
        node, shown, below_mark = stack.pop()
        node.shown = shown
        below_mark = below_mark or bool(node.note)
        inside = shown and (below_mark or id(node) in holds)
        stack.extend((child, inside, below_mark) for child in node.children)


def _choose(root: _Node, limit: int) -> None:
    """Keep what is marked and what is above it, then level by level as far as `limit` goes."""
    levels: list[list[_Node]] = [[root]]
    parents: dict[int, _Node] = {}
    while levels[-1]:
        below = []
        for node in levels[-1]:
            shown = [child for child in node.children if child.shown]
            below.extend(shown)
            parents.update((id(child), node) for child in shown)
        levels.append(below)
    kept = {id(root)}
    nodes = [node for level in levels for node in level]
    for node in nodes:
        path: _Node | None = node if node.note else None
        while path is not None and len(kept) < limit:
            kept.add(id(path))
            path = parents.get(id(path))
    for node in nodes:
        if len(kept) >= limit:
            break
        kept.add(id(node))
    for node in nodes:
        above = parents.get(id(node))
        node.shown = id(node) in kept and (above is None or above.shown)


def _shown_children(node: _Node) -> Iterator[_Node]:
    """The children, each run of omitted ones replaced by one `…` node, which saves lines."""
    hidden: list[_Node] = []
    for child in [*node.children, None]:
        if child is not None and not child.shown:
            hidden.append(child)
            continue
        if len(hidden) == 1:
            yield hidden.pop()
        if hidden:
            more = sum(h.count for h in hidden)
            kernels = sum(h.n_kernels for h in hidden)
            ops = any(h.op for h in hidden)
            inside = f" ({count(kernels, 'kernel')})" if kernels and ops else ""
            yield _Node(f"… {more} more{inside}", hidden[0].start_ns)
            hidden = []
        if child is not None:
            yield child


def _layout(root: _Node, color: bool) -> list[str]:
    rows: list[tuple[str, _Node, str]] = []  # indent, node, what stands after its name
    stack = [(root, "", "", 0)]
    while stack:
        node, indent, below, depth = stack.pop()
        after = f" × {node.count}" if node.count > 1 else ""
        if node.detail:
            after += f"  {node.detail}"
        if node.children and not any(child.shown for child in node.children):
            after += f"  … ({count(node.n_kernels, 'kernel')})" if node.n_kernels else "  …"
            children = []
        else:
            children = list(_shown_children(node))
        rows.append((indent, node, after))
        for child in reversed(children):
            last = child is children[-1]
            branch, deeper = ("└─ ", "   ") if last else ("├─ ", "│  ")
            step = below if depth >= MAX_INDENT else below + deeper
            stack.append((child, below + branch, step, depth + 1))
    times = [format_ns(median(node.durations)) if node.durations else "" for _, node, _ in rows]
    lefts = [width_of(f"{indent}{node.label}{after}") for indent, node, after in rows]
    # Shapes may reach past the column of times, names do not.
    aligned = [
        left
        for (_, node, _), left, time in zip(rows, lefts, times, strict=True)
        if time or (node.note and not node.detail)
    ]
    column = min(max(aligned, default=0), MAX_COLUMN)
    digits = max(map(width_of, times), default=0)
    lines = []
    for (indent, node, after), left, time in zip(rows, lefts, times, strict=True):
        style = "offender" if node.note else "kernel" if time else ""
        label = paint(node.label, style, color) if style else node.label
        line = paint(indent, "quiet", color) + label + paint(after, "quiet", color)
        if time or node.note:
            line += " " * (column - left)
        if time:
            line += f"  {pad(time, digits, right=True)}"
        if node.note:
            line += " " * (0 if time or not digits else digits + 2)
            line += "   " + paint(f"← {clean(node.note)}", "offender", color)
        lines.append(line)
    return lines
