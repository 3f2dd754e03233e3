"""Traces no one should trust: random ones are read right, broken ones never make the reader lie."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import re
import time
import tracemalloc
import warnings
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings
from hypothesis import strategies as st
from trace_strategies import (
    Spelling,
    expected,
    found,
    launches_between_steps,
    plans,
    render,
    spellings,
)

from kernelpin import KernelpinWarning, Trace, TraceError, load_trace

H200 = Path(__file__).parent.parent / "data" / "h200"
REAL = {path.name.removesuffix(".json.gz"): gzip.decompress(path.read_bytes())
        for path in sorted(H200.glob("*.json.gz"))}  # fmt: skip
# A random trace launches between its steps too, which is told.
pytestmark = pytest.mark.filterwarnings("ignore:.*between two steps:kernelpin.KernelpinWarning")
real_traces = st.sampled_from(sorted(REAL))

# The same examples in CI each time; deadlines fail on a busy machine, not on a slow reader.
fixed = settings(
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
# Far beyond what a file of 50 kB takes (1 ms), far below what a quadratic reader takes.
SECONDS = 2.0
MEMORY_BYTES = 32 << 20


def read(data):
    """The trace or None, the warnings; anything but a TraceError is an error of the reader."""
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            trace = load_trace(data)
        except TraceError:
            trace = None
    assert time.process_time() - began < SECONDS
    assert {w.category for w in caught} <= {KernelpinWarning}
    assert len(caught) == (trace is not None and bool(trace.warnings))
    return trace


def ask_everything(trace):
    """Every question; the answer may be a TraceError, and nothing else."""
    for view in (*trace.ops(), *trace.calls(), *trace.kernels, *trace.strays, *trace.steps):
        for name in dir(view):
            if not name.startswith("_"):
                with contextlib.suppress(TraceError):
                    value = getattr(view, name)
                    if callable(value):
                        value()
        repr(view)
    for scope in (None, *trace.steps, *trace.ops()):
        with contextlib.suppress(TraceError):
            trace.require_complete(scope)
    _ = trace.metadata, trace.device, trace.roots, trace.lost, trace.annotations(), repr(trace)


def counts(trace):
    """What checks count."""
    names = sorted({op.name for op in trace.ops()})
    return {
        "ops": {name: len(trace.ops(name)) for name in names},
        "kernels": {name: sorted(len(op.kernels) for op in trace.ops(name)) for name in names},
        "steps": [(step.name, len(step.launches), len(step.kernels)) for step in trace.steps],
        "strays": len(trace.strays),
        "names": sorted(kernel.name for kernel in trace.kernels),
    }


def is_told(trace):
    """Whether the trace says that it is not to be trusted as it is."""
    if trace is None or trace.warnings:
        return True
    try:
        trace.require_complete()
    except TraceError:
        return True
    return False


# -- well-formed ----------------------------------------------------------------------------------


@given(plans(), spellings)
@settings(fixed, max_examples=250)
def test_any_well_formed_trace_is_attributed_right(plan, spelling):
    assume(plan.ops or plan.calls or plan.kernels)
    trace = load_trace(render(plan, spelling))
    between = launches_between_steps(plan)
    told = f"{between} launch(es) between two steps"
    assert [w.startswith(told) for w in trace.warnings] == [True] * bool(between)
    assert found(trace) == expected(plan)
    event(f"lost: {bool(trace.lost)}, steps: {len(trace.steps)}")


@given(plans(max_actions=40), st.integers(0, 99))
@settings(fixed, max_examples=60)
def test_a_large_trace_in_any_order_gives_the_same(plan, seed):
    assume(plan.ops or plan.calls or plan.kernels)
    assert found(load_trace(render(plan, Spelling(shuffle=seed)))) == expected(plan)


@pytest.mark.parametrize(
    "spelling",
    [
        Spelling(shuffle=1),
        Spelling(old=True),
        Spelling(packed=True),
        Spelling(shift_us=10**17),
        Spelling(shift_us=1661203462598738),
        Spelling(listed=True),
        Spelling(flows=False),
        Spelling(rocm=True),
        Spelling(indent=2),
    ],
    ids=lambda spelling: str(spelling)[9:-1],
)
@given(plan=plans())
@settings(fixed, max_examples=15)
def test_the_spelling_does_not_change_the_answer(spelling, plan):
    assume(plan.ops or plan.calls or plan.kernels)
    assert found(load_trace(render(plan, spelling))) == found(load_trace(render(plan)))


@given(plans(), st.booleans())
@settings(fixed, max_examples=40)
def test_what_no_json_is_changes_nothing_but_a_warning(plan, quotes):
    assume(plan.ops)
    sound, broken = render(plan), render(plan)
    if quotes:
        broken = broken.replace(b'"GPU 0"', b"nan").replace(b'\\"', b'"')
    else:
        broken = broken.replace(b'"schemaVersion": 1', b'"schemaVersion": -inf')
    with pytest.warns(KernelpinWarning, match="repaired: "):
        trace = load_trace(broken)
    assert found(trace) == found(load_trace(sound))
    assert len(trace.warnings) == 1 + bool(launches_between_steps(plan))


# -- mutated --------------------------------------------------------------------------------------


@given(data=st.data(), name=real_traces)
@settings(fixed, max_examples=150)
def test_bytes_cut_flipped_or_inserted_give_a_trace_or_a_trace_error(data, name):
    whole = REAL[name]
    mutated = bytearray(whole)
    place = st.integers(0, len(whole) - 1)
    for _ in range(data.draw(st.integers(1, 4))):
        at, length = data.draw(place), data.draw(st.integers(1, 200))
        kind = data.draw(st.sampled_from(["flip", "flip", "cut", "drop", "insert", "repeat"]))
        if kind == "flip" and at < len(mutated):
            mutated[at] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del mutated[at:]
        elif kind == "drop":
            del mutated[at : at + length]
        elif kind == "insert":
            mutated[at:at] = data.draw(st.binary(min_size=1, max_size=20))
        else:
            mutated[at:at] = mutated[at : at + length]
    mutated = bytes(mutated)
    trace = read(mutated)
    if trace is not None:
        ask_everything(trace)
        try:
            json.loads(mutated.decode(errors="replace"))
        except ValueError:
            assert trace.warnings, "what is no JSON was read without a word"
    event("read" if trace else "refused")


@given(name=real_traces, share=st.floats(0, 1), packed=st.booleans())
@settings(fixed, max_examples=60)
def test_a_file_cut_short_is_never_a_trace(name, share, packed):
    whole = gzip.compress(REAL[name], 1) if packed else REAL[name].rstrip()
    assert read(whole[: int(share * (len(whole) - 1))]) is None


@given(data=st.data(), name=real_traces)
@settings(fixed, max_examples=40)
def test_damaged_gzip_is_never_a_trace_with_other_counts(data, name):
    packed = bytearray(gzip.compress(REAL[name], 6, mtime=0))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    trace = read(bytes(packed))
    if trace is not None:  # the header's file name, time and system do not matter
        assert counts(trace) == counts(read(REAL[name]))


WRONG = [None, "", "x", [], {}, [1, [2]], True, -1.5e300, 10**30, -(10**30), 1e16, -1e16, 3e12]
DROPPED = object()


@given(data=st.data(), name=real_traces)
@settings(fixed, max_examples=300)
def test_a_field_dropped_or_of_another_type_never_changes_a_count_unsaid(data, name):
    original = json.loads(REAL[name])
    mutated = copy.deepcopy(original)
    events = [
        event for event in mutated["traceEvents"]
        if event.get("cat", "")[:4] in ("cpu_", "cuda", "kern", "gpu_", "user")
    ]  # fmt: skip
    chosen = data.draw(st.sampled_from(events))
    inside = chosen["args"] if data.draw(st.booleans()) and chosen["args"] else chosen
    key = data.draw(st.sampled_from(sorted(inside)))
    wrong = data.draw(st.sampled_from([DROPPED, *WRONG]))
    # Another string for a name, another number for a thread: no one can know.
    assume(not (key in ("name", "tid", "pid", "cat") and isinstance(wrong, str | int)
                and not isinstance(wrong, bool)))  # fmt: skip
    if wrong is DROPPED:
        del inside[key]
    else:
        inside[key] = wrong
    trace, sound = read(json.dumps(mutated).encode()), read(REAL[name])
    # A stray says itself that it is attributed to nothing.
    if not is_told(trace) and len(trace.strays) == len(sound.strays):
        assert counts(trace) == counts(sound)
    if trace is not None:
        ask_everything(trace)
    event(f"{key}: {'refused' if trace is None else 'told' if is_told(trace) else 'same'}")


@given(data=st.data(), name=real_traces)
@settings(fixed, max_examples=60)
def test_of_equal_keys_the_last_counts_as_everywhere(data, name):
    text = REAL[name].decode()
    key = data.draw(st.sampled_from(["cat", "name", "ts", "ph", "args", "correlation"]))
    places = [found.start() for found in re.finditer(f'"{key}":', text)]
    at = data.draw(st.sampled_from(places))
    value = data.draw(st.sampled_from(["1", '"kernel"', "null", "{}", '"X"', "-3.5"]))
    text = f'{text[:at]}"{key}": {value}, {text[at:]}'
    once = json.dumps(json.loads(text)).encode()
    trace, same = read(text.encode()), read(once)
    assert (trace is None) == (same is None)
    if trace is not None:
        assert counts(trace) == counts(same)


@pytest.mark.parametrize("inside", ["args", "name", "ts", "event", "top"])
@given(depth=st.sampled_from([10, 300, 900, 1100, 50_000]))
@settings(fixed, max_examples=5)
def test_deep_nesting_is_read_or_refused(inside, depth):
    nest = "[" * depth + "]" * depth
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1, "pid": 1, "tid": 1}'
    if inside == "args":
        event = event.replace("}", f', "args": {{"Input Dims": {nest}}}}}')
    elif inside in ("name", "ts"):
        event = event.replace(f'"{inside}": ', f'"{inside}": {nest}, "x": ')
    events = f"{event}, {nest}" if inside == "event" else event
    top = f', "x": {nest}' if inside == "top" else ""
    trace = read(f'{{"traceEvents": [{events}]{top}}}'.encode())
    if trace is not None:
        ask_everything(trace)
    assert trace is not None or depth > 300 or inside in ("name", "ts")


def _bomb(filler, count):
    packer = zlib.compressobj(9, wbits=31)
    head = packer.compress(b'{"traceEvents": [')
    body = b"".join(packer.compress(filler) for _ in range(count))
    return head + body + packer.compress(b"]}") + packer.flush()


@pytest.mark.parametrize(
    "data",
    [
        b'{"traceEvents": [' + b'{"name": "' * 20_000,
        b'{"traceEvents": [' + b'"' * 100_000,
        b'{"traceEvents": [' + b"nan," * 50_000 + b"1]}",
        b'{"traceEvents": [' + b'{"name": "a"b"},' * 20_000 + b"1]}",
        b'{"traceEvents": [' + b'{"name": "a"b", "ts": x' * 5_000 + b"]}",
        b'{"traceEvents": [{"name": "' + b"\\" * 200_000 + b'"}]}',
        b'{"traceEvents": [{"ph": "X", "ts": ' + b"9" * 200_000 + b"}]}",
        b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "ts": 1e999999999}]}',
        b"[" + b"," * 100_000,
        b"{" * 100_000,
        b"\xff" * 100_000,
        b'{"traceEvents": [' + b"\x00" * 100_000 + b"]}",
    ],
    ids=lambda data: repr(data[-24:]),
)
def test_spiteful_files_take_no_longer_than_others(data):
    trace = read(data)
    assert trace is None or trace.warnings


@pytest.mark.parametrize("filler", [b" " * 65536, b"[" * 65536, b'"' * 65536])
def test_a_gzip_bomb_is_refused_within_bounded_memory(filler, monkeypatch):
    monkeypatch.setattr("kernelpin.kineto.file.ALWAYS_ALLOWED_BYTES", 4 << 20)
    bomb = _bomb(filler, 1000)
    assert len(bomb) < 100_000
    tracemalloc.start()
    try:
        assert read(bomb) is None
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES
    finally:
        tracemalloc.stop()


@example(name="geglu_64_128_768_3072.eager", factor=10**7)
@given(name=real_traces, factor=st.sampled_from([10**6, 10**7, 10**9]))
@settings(fixed, max_examples=10)
def test_seconds_among_microseconds_make_their_step_suspect(name, factor):
    trace = json.loads(REAL[name])
    longest = max((e for e in trace["traceEvents"] if e.get("cat") == "kernel"),
                  key=lambda e: e["dur"])  # fmt: skip
    longest["dur"] *= factor
    read_back = read(json.dumps(trace).encode())
    assert any("of seconds among records of" in line for line in read_back.warnings)
    (suspect,) = [kernel for kernel in read_back.kernels if kernel.suspect]
    assert suspect.step.suspect
    assert suspect.op.suspect
    assert isinstance(read_back, Trace)
