"""Reading trace files: every spelling that torch wrote, and every way a file can be broken."""

from __future__ import annotations

import gc
import gzip
import io
import json
import re
import warnings
import zlib
from decimal import Decimal
from pathlib import Path

import pytest

from kernelpin import KernelpinWarning, TraceError, load_trace
from kernelpin.kineto import file

H200 = Path(__file__).parent.parent / "data" / "h200"
LINEAR = H200 / "linear_1024_32_64.eager.json.gz"

# Two ops, a launch, its kernel.
EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 1, "tid": 1, "ts": 10.5, "dur": 40,
     "args": {"External id": 1, "Input Dims": [[2, 3], [], [[4], [5, 6]]],
              "Input type": ["float", "Scalar", "TensorList"]}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 11, "dur": 30,
     "args": {"External id": 2}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 20,
     "dur": 5, "args": {"correlation": 7}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30.125, "dur": 2.25,
     "args": {"correlation": 7, "device": 0, "stream": 7, "grid": [1, 2, 3]}},
]  # fmt: skip


def text(events=EVENTS, **top):
    return json.dumps({"schemaVersion": 1, "traceEvents": events, **top})


def changed(index, **fields):
    """EVENTS, one with other fields; None: without the field."""
    event = {**EVENTS[index], **fields}
    event = {key: value for key, value in event.items() if value is not None}
    return [*EVENTS[:index], event, *EVENTS[index + 1 :]]


def load_warned(data, match):
    """The trace, which must come with exactly one Python warning, and match."""
    if isinstance(data, str):
        data = data.encode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = load_trace(data)
    assert [w.category for w in caught] == [KernelpinWarning]
    assert caught[0].filename == __file__
    assert re.search(match, str(caught[0].message)), str(caught[0].message)
    assert trace.warnings
    return trace


def assert_same(trace, times=True):
    """The trace has what EVENTS say."""
    assert [op.name for op in trace.ops()] == ["aten::linear", "aten::addmm"]
    assert trace.ops("aten::addmm")[0].parent == trace.ops("aten::linear")[0]
    (kernel,) = trace.kernels
    assert kernel.op.name == "aten::addmm"
    assert (kernel.device, kernel.stream, kernel.category) == (0, 7, "kernel")
    if times:
        assert (kernel.start_ns, kernel.duration_ns) == (19_625, 2_250)
        assert trace.ops()[1].start_ns == 500


# -- sources --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["path", "str", "bytes", "file", "plain"])
def test_a_trace_is_read_from_a_path_bytes_or_a_binary_file(kind, tmp_path):
    plain = tmp_path / "x.json"
    plain.write_bytes(gzip.decompress(LINEAR.read_bytes()))
    source = {
        "path": LINEAR, "str": str(LINEAR), "bytes": LINEAR.read_bytes(),
        "file": io.BytesIO(LINEAR.read_bytes()), "plain": plain,
    }[kind]  # fmt: skip
    trace = load_trace(source)
    assert len(trace.kernels) == 3
    assert trace.warnings == ()
    assert trace.source == {"bytes": "<bytes>", "file": "<file>"}.get(kind, str(source))


def test_a_file_opened_as_text_is_refused():
    with pytest.raises(TraceError, match="is open as text; open it with mode 'rb'"):
        load_trace(io.StringIO(text()))


def test_a_path_that_leads_nowhere_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"none\.json': cannot be read: No such file"):
        load_trace(tmp_path / "none.json")
    with pytest.raises(TraceError, match="cannot be read"):
        load_trace("a\0b")


def test_the_collector_is_as_it_was_afterwards():
    load_trace(LINEAR)
    assert gc.isenabled()
    gc.disable()
    try:
        load_trace(LINEAR)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_collector_is_paused_while_reading(monkeypatch):
    monkeypatch.setattr("kernelpin.kineto.load_sound", lambda *_: 1 / gc.isenabled())
    with pytest.raises(ZeroDivisionError):
        load_trace(LINEAR)


def test_sound_files_take_the_fast_path(monkeypatch):
    monkeypatch.setattr("kernelpin.kineto.load_broken", None)
    for file_ in H200.glob("*.gz"):
        assert load_trace(file_).kernels


# -- spellings ------------------------------------------------------------------------------------


def test_arguments_are_tuples():
    linear = load_trace(text().encode()).ops("aten::linear")[0]
    assert linear.shapes == ((2, 3), (), ((4,), (5, 6)))
    assert linear.dtypes == ("float", "Scalar", "TensorList")
    assert linear.strides == ()


def test_a_bare_list_of_events_is_a_trace():
    trace = load_trace(json.dumps(EVENTS).encode())
    assert_same(trace)
    assert trace.metadata == {}
    assert trace.warnings == ()


def test_old_spellings_mean_the_same():
    cats = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    old = [{**event, "cat": cats[event["cat"]]} for event in EVENTS]
    old[3] = {**old[3], "tid": "stream 7", "args": {"correlation": "7", "external id": 2}}
    assert_same(load_trace(text(old).encode()))
    copies = [("Memcpy", "memcpy"), ("Memset", "memset"), ("gpu_memcpy", "memcpy"),
              ("gpu_memset", "memset")]  # fmt: skip
    for cat, category in copies:
        (copy,) = load_trace(text(changed(3, cat=cat)).encode()).kernels
        assert copy.category == category


def test_rocm_spells_a_device_without_a_list_and_counts_from_0():
    events = [*EVENTS[:2], {**EVENTS[2], "name": "hipLaunchKernel", "args": {"correlation": 0}},
              {**EVENTS[3], "args": {"correlation": 0, "device": 2, "stream": 0}}]  # fmt: skip
    trace = load_trace(text(events, deviceProperties={"id": 0, "name": ""}).encode())
    (kernel,) = trace.kernels
    assert (kernel.op.name, kernel.device, kernel.stream) == ("aten::addmm", 2, 0)
    assert (trace.device.name, trace.device.slug) == ("", "")


def test_display_units_do_not_change_the_times():
    for unit in ("ms", "ns"):
        assert_same(load_trace(text(displayTimeUnit=unit).encode()))


def test_other_phases_and_categories_are_no_events_of_ours():
    extra = [
        {"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "args": {"name": "python"}},
        {"ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 20, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 7, "pid": 0, "tid": 7, "ts": 30, "cat": "ac2g", "name": "ac2g"},
        {"ph": "i", "s": "g", "name": "Record Window End", "ts": 1, "pid": "", "tid": ""},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "fwd", "ts": 30, "dur": 9, "tid": 7},
        {"ph": "X", "cat": "python_function", "name": "f", "ts": 30, "dur": 9, "pid": 1, "tid": 1},
    ]
    trace = load_trace(text(EVENTS + extra).encode())
    assert_same(trace)
    assert trace.warnings == ()


def test_metadata_is_all_but_the_events():
    trace = load_trace(text(traceName="x.json", custom=[1]).encode())
    assert trace.metadata == {"schemaVersion": 1, "traceName": "x.json", "custom": [1]}


# -- times ----------------------------------------------------------------------------------------


def shifted(by, events=EVENTS):
    """The text of a trace with all times later by a whole number of µs, written exactly."""
    for event in events:
        stamp = Decimal(f"{event['ts']:.3f}") + by
        yield json.dumps({**event, "ts": "@"}).replace('"@"', str(stamp))


@pytest.mark.parametrize("by", [0, 5202177634831, 2**43, 1661203462598738, 10**17, -(10**6)])
def test_times_are_exact_however_large(by):
    assert_same(load_trace(f"[{','.join(shifted(by))}]".encode()))


def test_whole_microseconds_are_exact_too():
    events = [{**event, "ts": 1661203462598738 + i, "dur": 20 - i} for i, event in
              enumerate(EVENTS)]  # fmt: skip
    trace = load_trace(text(events).encode())
    assert [op.start_ns for op in trace.ops()] == [0, 1000]
    assert (trace.kernels[0].start_ns, trace.kernels[0].duration_ns) == (3000, 17_000)


def test_the_smallest_time_counts_all_complete_events_and_no_others():
    early = {"ph": "i", "name": "x", "ts": -5, "pid": 1, "tid": 1}
    span = {"ph": "X", "cat": "Trace", "name": "Profiler", "ts": 1, "dur": 90, "pid": "Spans"}
    assert load_trace(text([early, *EVENTS]).encode()).ops()[0].start_ns == 0
    assert load_trace(text([span, *EVENTS]).encode()).ops()[0].start_ns == 9_500


@pytest.mark.parametrize(
    ("ts", "ns"),
    [("1e1", 500), ("10.0", 500), ("10.0004", 500), ("9.5e0", 0), ('"10.25"', 750)],
)
def test_times_may_be_written_in_other_ways(ts, ns):
    data = text(changed(1, ts="@")).replace('"@"', ts).replace("10.5,", "9.5,")
    if ts.startswith('"'):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = load_trace(data.encode())
    else:
        trace = load_trace(data.encode())
    assert trace.ops("aten::addmm")[0].start_ns == ns


# -- repaired -------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", "-inf",
                                   "-nan(ind)", "INF"])  # fmt: skip
def test_what_is_no_number_is_repaired(token):
    events = changed(3, args={**EVENTS[3]["args"], "a: inf, NaN": "x: inf,", "bandwidth": "@"})
    data = text(events).replace('"@"', token)
    offset = data.index(token + "}")
    assert_same(load_warned(data, f"repaired: a bare NaN or infinity at byte {offset}$"))


def test_a_byte_order_mark_is_skipped():
    assert_same(load_warned(b"\xef\xbb\xbf" + text().encode(), "a byte order mark at byte 0"))
    assert_same(load_warned(text().encode("utf-16"), "UTF-16 instead of UTF-8"))


def test_offsets_are_those_of_the_file_as_it_is():
    data = b"\xef\xbb\xbf" + text(note="@", late="#").encode()
    data = data.replace(b'"@"', b"nan").replace(b'"#"', b"inf")
    first, second = data.index(b"nan"), data.index(b"inf")
    load_warned(data, rf"a bare NaN or infinity at byte {first} \(and at 1 more places\)")
    broken = data.replace(b"inf", b"inv")
    with pytest.raises(TraceError, match=f"no valid JSON at byte {second}: unexpected 'inv"):
        load_trace(broken)


@pytest.mark.parametrize(
    ("written", "read", "what"),
    [
        ("a\nb", "a\nb", "a control character"),
        ("a\x00b", "a\0b", "a control character"),
        (r"C:\new\qt", "C:\new\\qt", "a bad escape"),
        (r"C:\dir" + "\\", "C:\\dir\\", "a bad escape"),
        (r"\u12", "\\u12", "a bad escape"),
        (r"\ud83d\n\ude00\ud83d\ude00", "\ufffd\n\ufffd😀", "a bad escape"),
        ('{"device": "cpu"}(12): run', '{"device": "cpu"}(12): run', "quotes inside a string"),
        ('"', '"', "quotes inside a string"),
        ('a" b', 'a" b', "quotes inside a string"),
        ('say "hi"', 'say "hi"', "quotes inside a string"),
        ('a", b', 'a", b', "quotes inside a string"),
        ('x": y', 'x": y', "quotes inside a string"),
        ('x"} y', 'x"} y', "quotes inside a string"),
        ('a",5,"b', 'a",5,"b', "quotes inside a string"),
        ('a"\\u00e9"\tb', 'a"é"\tb', "quotes inside a string"),
    ],
)
@pytest.mark.parametrize("compact", [True, False])
def test_a_label_written_as_it_is_is_repaired(written, read, what, compact):
    events = [{"ph": "X", "cat": "user_annotation", "name": "@", "pid": 1, "tid": 1, "ts": 1,
               "dur": 90, "args": {}}, *EVENTS]  # fmt: skip
    data = text(events)
    if compact:
        data = json.dumps(json.loads(data), separators=(",", ":"))
    offset = data.index("@") - 1
    trace = load_warned(data.replace("@", written), f"repaired: {what} at byte {offset}$")
    assert trace.annotations()[0].name == read
    assert trace.ops("aten::linear")[0].parent == trace.annotations()[0]
    assert len(trace.annotations()[0].kernels) == 1


def test_many_labels_are_repaired_in_one_warning():
    labels = [{**EVENTS[0], "name": f"@{i}@", "ts": 100 + 100 * i} for i in range(300)]
    trace = load_warned(text(EVENTS + labels).replace("@", '"'), r"\(and at 299 more places\)$")
    assert len(trace.ops()) == 302
    assert trace.ops('"7"')


def test_bytes_that_are_no_utf8_are_replaced():
    data = text().encode().replace(b"linear", b"lin\xe9ar").replace(b"10.5", b"10.5 ")
    trace = load_warned(data, f"bytes that are no UTF-8 at byte {data.index(0xE9)}")
    assert [op.name for op in trace.ops()] == ["aten::lin?ar", "aten::addmm"]


def test_a_trailing_comma_is_dropped():
    data = text().replace('"stream": 7', '"stream": 7,').replace("}]", "} , ]")
    data = data.replace(', "grid": [1, 2, 3]', "")
    assert_same(load_warned(data, r"a trailing comma at byte \d+ \(and at 1 more places\)$"))


def test_nul_bytes_behind_the_end_are_skipped():
    assert_same(load_warned(text() + "\0\0\0", "a control character"))


# -- coerced or left out, and told ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "fields", "told"),
    [
        (3, {"args": {"correlation": "7", "stream": 7, "device": 0}}, None),
        (3, {"args": {"correlation": 7, "stream": "7", "device": "0"}}, None),
        (3, {"pid": [1]}, r"1 event\(s\) with an odd pid, the first: event 3: \[1\]"),
        (3, {"tid": {}}, r"1 event\(s\) with an odd tid, the first: event 3: \{\}"),
        (0, {"dur": "40"}, None),
        (1, {"ts": "11"}, None),
        (2, {"args": {"correlation": 7, "stream": [7]}}, r"1 event\(s\) whose args have a wrong"
         r" type, the first: cudaLaunchKernel: Expected"),
        (0, {"args": 5}, None),
    ],
)  # fmt: skip
def test_other_types_are_read_where_that_loses_nothing(index, fields, told):
    data = text(changed(index, **fields))
    if told is None:
        assert_same(load_trace(data.encode()))
    else:
        assert_same(load_warned(data, told))


@pytest.mark.parametrize(
    ("index", "fields", "told"),
    [
        (3, {"ts": None}, "1 event(s) without a usable time, left out, the first: gemm: ts null"),
        (3, {"ts": "soon"}, '1 event(s) without a usable time, left out, the first: gemm: ts "so'),
        (3, {"ts": True}, "1 event(s) without a usable time, left out, the first: gemm: ts true"),
        (3, {"ts": 1e300}, "1 event(s) without a usable time, left out, the first: gemm: ts 1e+3"),
        (3, {"ts": 1e22}, "1 event(s) a century from the others, left out, the first: gemm: ts 1e"),
        (3, {"ph": None}, "1 event(s) with an unknown ph, left out, the first: event 3: None"),
        (3, {"ph": "Y"}, "1 event(s) with an unknown ph, left out, the first: event 3: 'Y'"),
        (3, {"ph": "B"}, "1 event(s) with an unknown ph, left out, the first: event 3: 'B'"),
        (3, {"cat": 5}, "1 event(s) with an unknown cat, left out, the first: event 3: 5"),
        (3, {"name": ["x"]}, "1 event(s) with an unknown name, left out, the first: event 3: ['"),
        (1, {"ts": -1e18}, "1 event(s) a century from the others, left out, the first: aten::ad"),
    ],
)  # fmt: skip
def test_records_that_cannot_be_read_make_the_trace_incomplete(index, fields, told):
    trace = load_warned(text(changed(index, **fields)), re.escape(told))
    with pytest.raises(TraceError, match="1 records could not be read"):
        trace.require_complete()


@pytest.mark.parametrize(
    ("index", "fields", "told"),
    [
        (0, {"cat": None}, "1 event(s) of the unknown category '', left out, the first: aten::li"),
        (0, {"cat": "cpu_oq"}, "1 event(s) of the unknown category 'cpu_oq', left out, the first"),
        (0, {"name": None}, "1 event(s) without a name, the first: counted under ''"),
        (1, {"tid": None}, "1 event(s) without a thread, though others have one, the first: aten:"),
        (0, {"dur": None}, "1 event(s) without a usable duration, taken as 0, the first: aten::l"),
        (3, {"dur": 1e18}, "1 event(s) without a usable duration, taken as 0, the first: gemm: d"),
        (3, {"args": {}}, "1 GPU record(s) without a correlation id, the first: gemm"),
        (3, {"args": {"correlation": "x"}}, "1 GPU record(s) with an odd correlation id, the fi"),
        (2, {"args": None}, "1 runtime call(s) without a correlation id, the first: cudaLaunchKe"),
        (3, {"args": {"correlation": 7.5}}, "1 event(s) whose args have a wrong type, the first:"),
    ],
)  # fmt: skip
def test_what_changes_a_count_is_told(index, fields, told):
    load_warned(text(changed(index, **fields)), re.escape(told))


def test_what_has_no_correlation_id_is_linked_to_nothing():
    events = [*EVENTS[:2], {**EVENTS[2], "args": {}}, {**EVENTS[3], "args": {}}]
    trace = load_warned(text(events), "without a correlation id")
    assert len(trace.strays) == len(trace.lost) == 1


def test_events_that_are_no_objects_are_told():
    trace = load_warned(text([*EVENTS, 5, [], None, "x"]), r"4 event\(s\) that are no objects")
    assert_same(trace)


def test_two_lists_of_events_are_told():
    data = text().replace('"traceEvents"', '"traceEvents": [], "traceEvents"', 1)
    trace = load_warned(data, r"1 list\(s\) of events before the last, left out")
    assert_same(trace)
    with pytest.raises(TraceError, match="could not be read"):
        trace.require_complete()


def test_the_word_traceevents_elsewhere_is_no_second_list():
    data = text(changed(0, args={"x": "traceEvents"}), y={"traceEvents": []})
    trace = load_trace(data.encode())
    assert_same(trace)
    assert trace.warnings == ()


def test_python_warns_once_and_the_trace_has_it_all():
    data = text([*changed(3, dur=None), {**EVENTS[0], "cat": "odd"}], x="@").replace('"@"', "nan")
    trace = load_warned(data, r"a bare NaN.*\(Trace\.warnings has 2 more\)$")
    assert len(trace.warnings) == 3


# -- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", r"<bytes>: is empty \(0 bytes\); record it again"),
        (b" \n", r"is empty \(2 bytes\)"),
        (gzip.compress(b"", mtime=0), "is empty"),  # an id that stays the same
        (b"{}", r"is JSON but no trace: .* no traceEvents among its keys \(none\); write one with"),
        (b'{"a": 1, "b": 2}', r"no traceEvents among its keys \(a, b\)"),
        (b'{"traceEvents": 5}', "is JSON but no trace"),
        (b'{"traceEvents": {}}', "is JSON but no trace"),
        (b'{"traceEvents": null}', "is JSON but no trace"),
        (b'"text"', "is JSON but no trace: .* found \"text\""),
        (b"17", "is JSON but no trace"),
        (b"null", "is JSON but no trace"),
        (b"[]", "holds no op, runtime call or GPU record among 0 complete events"),
        (b'{"traceEvents": []}', "holds no op, runtime call or GPU record"),
        (b"<html>", r"no valid JSON at byte 0: unexpected '<html>'"),
        (b"\x89PNG\r\n\x1a\n", "no valid JSON at byte 0"),
        (b"PK\x03\x04 zip", "no valid JSON at byte 0: unexpected 'PK"),
        (b"[1] 2", "no valid JSON at byte 5: trailing characters"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"traceEvents": [{"ph":"X","args":' + b"[" * 200_000 + b"]" * 200_000 + b"}]}",
         "nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused_with_the_cause(data, cause):
    with pytest.raises(TraceError, match=cause):
        load_trace(data)


def test_the_file_is_named(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{")
    with pytest.raises(TraceError, match=rf"^{re.escape(str(path))}: no valid JSON at byte 1: "):
        load_trace(path)


def test_a_truncated_file_says_where_it_ends():
    whole = text().encode()
    for end in range(1, len(whole)):
        with pytest.raises(TraceError, match=r"no valid JSON at byte \d+") as caught:
            load_trace(whole[:end])
        assert "truncated" in str(caught.value), whole[:end]


def test_an_unknown_fault_has_its_offset_and_what_stands_there():
    data = text().replace('"dur": 40', '"dur": forty')
    offset = data.index("forty")
    with pytest.raises(TraceError, match=f"byte {offset}: unexpected 'forty, ") as caught:
        load_trace(data.encode())
    assert str(caught.value).endswith("; repair it or record it again")


def test_offsets_behind_repairs_are_those_of_the_file():
    label = {**EVENTS[0], "cat": "user_annotation", "name": "@"}
    data = text([label, *EVENTS], x="#").replace("@", 'a",5,"b').replace('"#"', "nan")
    for fault in (data.replace('"dur": 30,', '"dur": 30 '), data.replace("nan", "nan 5")):
        offset = re.search(r'(?<="dur": 30  )"|(?<=nan )5', fault).start()
        with pytest.raises(TraceError, match=rf"no valid JSON at byte {offset}: "):
            load_trace(fault.encode())


def test_a_repair_does_not_reach_back_over_another():
    data = text([{**EVENTS[0], "name": "@"}]).replace("@", 'a", 5: nan, b')
    with pytest.raises(TraceError, match=f"at byte {data.index('b', 70)}: unexpected 'b"):
        load_trace(data.encode())


def test_damaged_gzip_is_refused():
    packed = gzip.compress(text().encode() * 50)
    with pytest.raises(TraceError, match=r"truncated gzip: it ends at byte 40, \d+ bytes unpacked"):
        load_trace(packed[:40])
    flipped = bytearray(packed)
    flipped[20] ^= 0xFF
    with pytest.raises(TraceError, match="damaged gzip, in the member at byte 0 of"):
        load_trace(bytes(flipped))
    with pytest.raises(TraceError, match=r"damaged gzip.*incorrect data check"):
        load_trace(packed[:-8] + b"\0\0\0\0" + packed[-4:])


def test_gzip_of_several_members_is_one_file():
    whole = text().encode()
    assert_same(load_trace(gzip.compress(whole[:70]) + gzip.compress(whole[70:]) + b"\0" * 8))


def test_a_gzip_bomb_is_refused_before_it_unpacks(monkeypatch):
    monkeypatch.setattr(file, "ALWAYS_ALLOWED_BYTES", 1 << 20)
    bomb = zlib.compressobj(9, wbits=31)
    data = bomb.compress(b" " * (8 << 20)) + bomb.flush()
    with pytest.raises(TraceError, match=r"bytes of gzip unpack to more than \d+; .*gunzip"):
        load_trace(data)
    # Members add up.
    with pytest.raises(TraceError, match="unpack to more than"):
        load_trace(gzip.compress(b" " * (900 << 10)) * 2)
    assert_same(load_trace(gzip.compress(b" " * (900 << 10) + text().encode())))


def test_a_git_lfs_pointer_is_told_as_one(tmp_path):
    file = tmp_path / "x.json.gz"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n")
    with pytest.raises(TraceError, match=r"x.json.gz: is a Git LFS pointer .* run git lfs pull$"):
        load_trace(file)
