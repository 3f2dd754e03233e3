"""The compiled sweep: what it takes, each shape by itself, one session, held to the map."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from fixtures.sweep import (
    DTYPES,
    FORMS,
    CompiledSweep,
    LinearInputs,
    as_compiled_test,
    compile_alone,
    compiled_shapes,
    may_be_padded,
    shapes,
    sweep_compiled,
)
from fixtures.workloads import Unavailable, require_mode
from kernelpin import capture, folds
from kernelpin.folds import CompiledMap, FoldMap, Pair, Shape
from tests.unit.small_trace import kernel, label, memcpy, op, small_trace, step

ROOT = Path(__file__).parents[2]
MAPS = sorted((ROOT / "baselines").glob("*/fold_map.json"))

PLAIN = Shape(8, 16, 8, "fp32")
ROW = Shape(1, 16, 8, "bf16")
COLUMN = Shape(8, 1, 8, "fp32", "sliced")
GEMM = ("nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT",)
FUSED = ("no GEMM: triton_poi_fused_addmm_0",)
SAME, APART = Pair(GEMM, GEMM), Pair(GEMM, FUSED)


# -- what it takes ---------------------------------------------------------------------------------


def test_it_takes_some_of_the_eager_sweep_and_few_enough_for_a_minute():
    assert set(compiled_shapes()) <= set(shapes())
    assert 40 <= len(set(compiled_shapes())) == len(compiled_shapes()) <= 60


def test_it_has_every_dtype_and_form_and_each_dimension_of_1():
    found = compiled_shapes()
    assert {(s.dtype, s.form == "contiguous") for s in found} == {
        (dtype, contiguous) for dtype in DTYPES for contiguous in (True, False)
    }
    assert {s.form for s in found} == {"contiguous", *FORMS}
    ones = {tuple(size == 1 for size in (s.m, s.k, s.n)) for s in found}
    assert {(True, False, False), (False, True, False), (False, False, True)} < ones
    assert any(s.m == 0 for s in found)
    assert any(max(s.m, s.k, s.n) == 8192 for s in found if s.plain)


@pytest.mark.parametrize("path", MAPS, ids=lambda p: p.parent.name)
def test_it_has_every_class_of_a_recorded_map(path):
    named = folds.load(path)
    swept = {named.by_shape().get(s) for s in compiled_shapes()}
    assert set(named.classes) <= swept


def test_it_has_no_shape_that_a_timing_decides():
    assert [s for s in compiled_shapes() if may_be_padded(s)] == []


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("129x129x129 fp16 contiguous", False),  # 43 multiplications an element moved
        ("1000x8192x129 fp16 contiguous", True),
        ("1000x8192x128 fp16 contiguous", False),
        ("33x64x64 fp32 contiguous", True),
        ("36x64x64 fp32 contiguous", False),
        ("8x64x7 bf16 contiguous", True),  # K is largest
        ("8x64x7 fp16 contiguous", False),
        ("1x8192x8192 bf16 contiguous", False),
        ("1x100x64 bf16 contiguous", True),
        ("0x7x7 bf16 contiguous", False),
    ],
)
def test_inductor_may_pad_what_is_unaligned_and_bound_by_compute(text, may):
    assert may_be_padded(Shape.parse(text)) is may


# -- each shape by itself, on the CPU --------------------------------------------------------------


@pytest.fixture
def compiler():
    try:
        require_mode("compiled", "cpu")
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def inputs():
    return LinearInputs("cpu", elements=1000)


@pytest.mark.cpu
def test_a_shape_compiled_after_others_is_as_static_as_in_a_fresh_process(compiler, inputs):
    import torch

    def linear(x, weight, bias):
        return torch.nn.functional.linear(x, weight, bias)

    with torch.no_grad():
        made = [
            (s, compile_alone(linear, *inputs(s))) for s in (PLAIN, Shape(8, 4, 6, "fp32"), COLUMN)
        ]
        for shape, run in made:
            assert all(isinstance(given, torch.Tensor) for given in run.args)
            (got,) = run()
            torch.testing.assert_close(got, linear(*inputs(shape)))


@pytest.mark.cpu
def test_what_falls_back_to_several_graphs_is_an_error(compiler, inputs):
    import torch

    def broken(x, weight, bias):
        x = x + 1
        torch._dynamo.graph_break()
        return torch.nn.functional.linear(x, weight, bias)

    with pytest.raises(RuntimeError, match="2 compiled graphs ran where one was expected"):
        compile_alone(broken, *inputs(PLAIN))


@pytest.mark.cpu
def test_one_session_holds_every_shape_eager_and_compiled(compiler, inputs):
    sessions = []

    def counted(fn, **more):
        sessions.append(capture(fn, **more))
        return sessions[-1]

    sweep = sweep_compiled(counted, inputs, [PLAIN, ROW])
    assert set(sweep.pairs) == {PLAIN, ROW}
    assert (sweep.errors, sweep.apart) == ({}, {})
    (trace,) = sessions
    labels = [a.name for a in trace.annotations() if a.name.startswith("sweep|")]
    assert sorted(labels) == sorted(f"sweep|{how} {s}" for s in (PLAIN, ROW) for how in MODES)
    (compiled,) = (a for a in trace.annotations() if a.name == f"sweep|compiled {PLAIN}")
    assert [o.name for o in compiled.ops("aten::addmm")] == ["aten::addmm"]
    assert not compiled.ops("aten::linear")


# -- without a GPU: a session that gives the trace of one ------------------------------------------

MODES = ("eager", "compiled")


def session_with(kernels):
    """A capture whose trace has these kernels under each label."""

    def captured(fn, *, steps):
        assert steps == 1
        fn()
        inside = [label(f"sweep|{text}", op("aten::addmm", *ran)) for text, ran in kernels.items()]
        return small_trace(step(*inside))

    return captured


def as_eager(fn, *args):
    return lambda: (fn(*args),)


@pytest.mark.cpu
def test_the_kernels_of_each_shape_are_those_under_its_labels(inputs):
    bias = "void at::native::elementwise_kernel<128, 4>(int)"
    session = session_with(
        {
            f"eager {PLAIN}": [kernel(bias), kernel(GEMM[0])],
            f"compiled {PLAIN}": [memcpy(), kernel(GEMM[0])],
            f"eager {COLUMN}": [kernel(GEMM[0])],
            f"compiled {COLUMN}": [kernel("triton_poi_fused_addmm_0")],
        }
    )
    sweep = sweep_compiled(session, inputs, [PLAIN, COLUMN], as_eager)
    assert sweep.pairs == {PLAIN: SAME, COLUMN: APART}


@pytest.mark.cpu
def test_a_shape_that_fails_is_an_error_with_its_reason_and_the_others_go_on(inputs):
    def fails(fn, *args):
        if args[0].dtype == inputs(ROW)[0].dtype:
            raise RuntimeError("backend='keep' raised:\nNoTriton: no such\n  luck")

        def late():
            raise ValueError

        return late if args[0].shape[1] == 1 else as_eager(fn, *args)

    session = session_with({f"{how} {PLAIN}": [kernel(GEMM[0])] for how in MODES})
    sweep = sweep_compiled(session, inputs, [ROW, COLUMN, PLAIN], fails)
    assert sweep.pairs == {PLAIN: SAME}
    assert sweep.errors == {
        ROW: "RuntimeError: backend='keep' raised: NoTriton: no such luck",
        COLUMN: "ValueError: ",
    }


@pytest.mark.cpu
def test_where_every_shape_fails_no_session_is_begun(inputs):
    def fails(fn, *args):
        raise RuntimeError("no")

    sweep = sweep_compiled(None, inputs, [PLAIN], fails)
    assert (sweep.pairs, sweep.errors) == ({}, {PLAIN: "RuntimeError: no"})


@pytest.mark.cpu
@pytest.mark.parametrize("shape", [PLAIN, ROW, Shape(8, 16, 4, "fp16", "3d")], ids=str)
def test_outputs_that_differ_are_told_by_how_much(inputs, shape):
    def wrong(fn, *args):
        def run():
            out = fn(*args)
            out.view(-1)[3] += 1
            return (out,)

        return run

    session = session_with({f"{how} {shape}": [kernel(GEMM[0])] for how in MODES})
    sweep = sweep_compiled(session, inputs, [shape], wrong)
    assert set(sweep.apart) == {shape}
    assert "Mismatched elements: 1 /" in sweep.apart[shape]


# -- held to the map: the tests of perf_tests, with a sweep that was not run -----------------------


@pytest.fixture
def suite(monkeypatch, tmp_path):
    """perf_tests/test_fold_map.py on a GPU called `Fake 1`, with its baselines in `tmp_path`."""
    import torch

    module = importlib.import_module("perf_tests.test_fold_map")
    monkeypatch.setattr(module, "BASELINES", tmp_path)
    monkeypatch.setattr(module, "compiled_shapes", lambda: [PLAIN, COLUMN])
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Fake 1")
    monkeypatch.delenv("CI", raising=False)
    return module


@pytest.fixture
def path(tmp_path):
    (tmp_path / "fake-1").mkdir()
    return tmp_path / "fake-1" / "fold_map.json"


class Request:
    """As much of pytest's request as the tests use; keeps the plugins they register."""

    def __init__(self, record=False):
        self.plugins = []
        self.config = SimpleNamespace(
            getoption=lambda name: record,
            pluginmanager=SimpleNamespace(register=self.plugins.append),
        )


def sweep_of(pairs, errors=None, apart=None):
    return CompiledSweep(pairs, errors or {}, apart or {}, 12.3)


def stored(path, compiled=None):
    classes = {PLAIN: "gemm", COLUMN: "copy kernel + gemm"}
    folds.store(path, FoldMap.of("Fake 1", {"torch": "2"}, classes, compiled))


def holds(suite, sweep, record=False):
    request = Request(record)
    suite.test_compiled_linear_runs_eagers_kernels_or_is_an_exception_on_the_map(sweep, request)
    return request


COMMAND = "pytest -m gpu perf_tests/test_fold_map.py --kernelpin-record"


@pytest.mark.parametrize("exists", [False, True], ids=["no map", "a map without the part"])
def test_what_is_not_recorded_skips_with_the_command_and_fails_under_ci(
    suite, path, exists, monkeypatch
):
    if exists:
        stored(path)
    assert outcome(suite, sweep_of({PLAIN: SAME})) == "skipped"
    monkeypatch.setenv("CI", "true")
    assert outcome(suite, sweep_of({PLAIN: SAME})) == "failed"


def outcome(suite, sweep):
    """How the test ends, told with the command; a skip must not skip the test of it."""
    how, told = "passed", COMMAND
    try:
        holds(suite, sweep)
    except pytest.skip.Exception as skipped:
        how, told = "skipped", str(skipped)
    except pytest.fail.Exception as failed:
        how, told = "failed", str(failed)
    assert COMMAND in told
    return how


def test_what_is_as_recorded_passes(suite, path):
    found = {PLAIN: SAME, COLUMN: APART}
    stored(path, CompiledMap.of({}, found))
    holds(suite, sweep_of(found))


def test_a_shape_that_differs_unexpectedly_is_named_with_both_lists_and_as_a_test(suite, path):
    stored(path, CompiledMap.of({"torch": "2.0"}, {PLAIN: SAME, COLUMN: SAME}))
    with pytest.raises(pytest.fail.Exception) as raised:
        holds(suite, sweep_of({PLAIN: SAME, COLUMN: APART}))
    message = str(raised.value)
    assert f"{COLUMN}: compiled runs other GEMM kernels than eager" in message
    assert f"now: eager     {GEMM[0]}" in message
    assert f"now: compiled  {FUSED[0]}" in message
    assert "recorded with torch 2.0" in message
    assert "def test_8x1x8_fp32(capture_trace)" in message
    assert f"{PLAIN}:" not in message


def test_an_exception_that_no_longer_differs_is_named(suite, path):
    stored(path, CompiledMap.of({}, {PLAIN: SAME, COLUMN: APART}))
    with pytest.raises(
        pytest.fail.Exception, match=f"{COLUMN}: an exception on the map, and compiled"
    ):
        holds(suite, sweep_of({PLAIN: SAME, COLUMN: SAME}))


def test_a_shape_that_failed_fails_the_test_once_with_its_reason(suite, path):
    stored(path, CompiledMap.of({}, {PLAIN: SAME, COLUMN: APART}))
    with pytest.raises(pytest.fail.Exception) as raised:
        holds(suite, sweep_of({PLAIN: SAME}, {COLUMN: "RuntimeError: no"}))
    assert f"{COLUMN}: cannot be compiled or run: RuntimeError: no" in str(raised.value)
    assert str(raised.value).count(str(COLUMN)) == 1


def test_recording_keeps_the_classes_tells_the_exceptions_and_is_held_to_at_once(suite, path):
    stored(path)
    before = folds.load(path)
    found = {PLAIN: SAME, COLUMN: APART}
    (summary,) = holds(suite, sweep_of(found), record=True).plugins
    after = folds.load(path)
    assert (after.classes, after.recorded_on) == (before.classes, before.recorded_on)
    assert after.compiled.exceptions == {COLUMN: APART}
    assert set(after.compiled.recorded_on) >= {"torch", "cuda", "date"}
    told = "\n".join(summary.lines)
    assert "in 12 s" in told
    assert "1 of 2 shapes run eager's GEMM kernels, 1 exception" in told
    assert str(COLUMN) in told


def test_recording_a_shape_that_failed_stores_the_others_and_fails(suite, path):
    stored(path)
    with pytest.raises(pytest.fail.Exception, match="cannot be compiled or run"):
        holds(suite, sweep_of({PLAIN: SAME}, {COLUMN: "RuntimeError: no"}), record=True)
    assert folds.load(path).compiled.shapes == (PLAIN,)


def test_recording_the_classes_keeps_the_compiled_part(suite, path):
    part = CompiledMap.of({"torch": "1"}, {PLAIN: SAME, COLUMN: APART})
    stored(path, part)
    live = {str(s): SimpleNamespace(kernels=[]) for s in (PLAIN, COLUMN)}
    suite.test_live_shapes_run_what_the_map_says(live, Request(record=True))
    assert folds.load(path).compiled == part
    assert set(folds.load(path).classes) == {"nothing"}


def test_outputs_apart_and_shapes_that_failed_fail_the_agreement(suite):
    agree = suite.test_eager_and_compiled_outputs_agree_for_every_class_dtype_and_form
    agree(sweep_of({PLAIN: SAME}))
    with pytest.raises(pytest.fail.Exception, match=f"(?s)2 shapes.*{ROW}: no.*{PLAIN}: by 1"):
        agree(sweep_of({PLAIN: SAME}, {ROW: "no"}, {PLAIN: "by 1"}))


def test_the_summary_of_a_recording_stands_at_the_end(pytester):
    pytester.makepyfile(
        """
        from fixtures.sweep import Summary

        def test_records(request):
            request.config.pluginmanager.register(Summary("fold map", ["3 exceptions"]))
        """
    )
    lines = pytester.runpytest("-q").stdout.lines
    (heading,) = (i for i, line in enumerate(lines) if " fold map " in line)
    assert lines[heading + 1] == "3 exceptions"


@pytest.mark.cpu
def test_the_ready_test_of_a_shape_compares_compiled_with_eager(compiler):
    names = {}
    exec(compile(as_compiled_test(COLUMN).replace("cuda", "cpu"), "ready test", "exec"), names)
    captured = []

    def capture_trace(fn, *args):
        fn(*args)
        captured.append(fn)
        return small_trace(step(op("aten::addmm", kernel(GEMM[0] if captured[1:] else "gemv2T"))))

    with pytest.raises(AssertionError, match="the same GEMM and GEMV kernels"):
        names["test_8x1x8_fp32"](capture_trace)
    assert len(captured) == 2


def test_an_old_map_is_written_as_it_was():
    for path in MAPS:
        text = path.read_text(encoding="utf-8")
        if "compiled" not in json.loads(text):
            assert folds.dump(folds.load(path)) == text
