"""The fold map: classes, conditions, changes, and a file that reads back or says what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelpin import cli, folds
from kernelpin.folds import CompiledMap, FoldMap, FoldMapError, NotRecorded, Pair, Shape
from kernelpin.kernel_name import decode_kernel_name

ROOT = Path(__file__).parents[2]

shapes = st.builds(
    Shape,
    *[st.integers(0, 9000)] * 3,
    st.sampled_from(["bf16", "fp16", "fp32"]),
    st.sampled_from(["contiguous", "transposed", "sliced", "3d"]),
)
classes = st.sampled_from(["gemm", "memset + gemm", "gemm + elementwise", "nothing"])
NOTHING = ("no GEMM: nothing",)
names = st.sampled_from(
    [
        "nvjet_sm90_tst_64x8_h_bz_TNT",
        "nvjet_sm90_tst_64x16_h_bz_TNT",
        "void gemv2T_kernel_val<int, int, float>(float)",
        "void gemv2T_kernel_val<int, int, __half>(__half)",
        "splitKreduce",
    ]
)
ran = st.one_of(
    st.lists(names, min_size=1, max_size=3).map(tuple),
    st.sampled_from([NOTHING, ("no GEMM: triton_poi_fused_addmm_0 + Memcpy DtoD (…)",)]),
)
pairs = st.one_of(ran.map(lambda told: Pair(told, told)), st.builds(Pair, ran, ran))
sweeps = st.dictionaries(shapes, pairs, max_size=12)
compiled_maps = sweeps.map(lambda found: CompiledMap.of({"torch": "2.11.0"}, found))
maps = st.builds(
    lambda found, compiled: FoldMap.of("NVIDIA H200", {"torch": "2.11.0"}, found, compiled),
    st.dictionaries(shapes, classes, min_size=1, max_size=30),
    st.none() | compiled_maps,
)


def kernel(family, category="kernel", name=""):
    return SimpleNamespace(family=family, category=category, name=name)


@pytest.mark.parametrize(
    ("kernels", "name", "folded"),
    [
        ([], "nothing", True),
        ([kernel("gemm")], "gemm", True),
        ([kernel("gemm"), kernel("splitk_reduce")], "gemm + splitk_reduce", True),
        ([kernel("fill", "memset"), kernel("gemm")], "memset + gemm", True),
        ([kernel("fill"), kernel("gemm")], "fill kernel + gemm", True),
        ([kernel("copy", "memcpy"), kernel("gemm")], "memcpy + gemm", False),
        ([kernel("copy"), kernel("gemv")], "copy kernel + gemv", False),
        ([kernel("gemm"), kernel("elementwise")], "gemm + elementwise", False),
        ([kernel("gemm"), kernel("gemm")], "gemm", True),
    ],
)
def test_a_class_names_its_parts_in_launch_order(kernels, name, folded):
    assert folds.classify(kernels) == name
    assert folds.folds(name) is folded


@given(maps)
def test_what_is_written_reads_back_equal(tmp_path_factory, fold_map):
    path = tmp_path_factory.mktemp("map") / "fold_map.json"
    path.write_text(folds.dump(fold_map), encoding="utf-8")
    assert folds.load(path) == fold_map


@given(maps)
def test_a_class_is_one_line_of_the_file(fold_map):
    lines = folds.dump(fold_map).splitlines()
    for name in fold_map.classes:
        assert sum(line.strip().startswith(json.dumps(name)) for line in lines) == 1


@given(maps)
def test_the_conditions_count_every_shape(fold_map):
    for members in fold_map.classes.values():
        clauses = folds.condition(members).split("; ")
        assert sum(int(clause.rpartition("(")[2][:-1]) for clause in clauses) == len(members)


@given(maps, st.data())
def test_exactly_the_shapes_that_run_something_else_are_changes(fold_map, data):
    was = fold_map.by_shape()
    changed = data.draw(st.sets(st.sampled_from(sorted(was))))
    now = {s: "gemv" if s in changed else name for s, name in was.items()}
    assert fold_map.changes(now) == [(s, was[s], "gemv") for s in sorted(changed)]


@given(shapes)
def test_a_shape_reads_back_equal(shape):
    assert Shape.parse(str(shape)) == shape


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: no JSON"),
        ("[]", "schema is 'list', this kernelpin reads 1"),
        ('{"schema": 2}', "schema is 2, this kernelpin reads 1"),
        ('{"schema": 1}', "no fold map: KeyError: 'classes'"),
        (
            '{"schema": 1, "device": "x", "recorded_on": {},'
            '"classes": {"gemm": {"shapes": ["1x2"]}}}',
            "not a shape: '1x2'",
        ),
        (
            '{"schema": 1, "device": "x", "recorded_on": {}, "classes": {'
            '"gemm": {"shapes": ["1x2x3 bf16 3d"]}, "gemv": {"shapes": ["1x2x3 bf16 3d"]}}}',
            "1x2x3 bf16 3d stands in 'gemv' and in another class",
        ),
    ],
)
def test_a_damaged_map_says_what_is_wrong(tmp_path, text, message):
    path = tmp_path / "fold_map.json"
    path.write_text(text)
    with pytest.raises(FoldMapError) as raised:
        folds.load(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)


ONE = '"1x2x3 bf16 3d"'


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("3", "compiled: wanted an object, found 3"),
        ("null", "compiled: wanted an object, found null"),
        ("{}", "compiled: 'recorded_on' is missing"),
        ('{"recorded_on": {}, "exceptions": {}}', "compiled: 'shapes' is missing"),
        ('{"recorded_on": {}, "shapes": []}', "compiled: 'exceptions' is missing"),
        (
            '{"recorded_on": [], "shapes": [], "exceptions": {}}',
            "compiled.recorded_on: wanted an object, found []",
        ),
        (
            '{"recorded_on": {"torch": 2}, "shapes": [], "exceptions": {}}',
            "compiled.recorded_on: wanted an object of texts, found 2",
        ),
        (
            '{"recorded_on": {}, "shapes": "1x2x3", "exceptions": {}}',
            'compiled.shapes: wanted a list, found "1x2x3"',
        ),
        (
            '{"recorded_on": {}, "shapes": ["1x2"], "exceptions": {}}',
            "compiled.shapes: not a shape: '1x2'",
        ),
        (
            f'{{"recorded_on": {{}}, "shapes": [{ONE}, {ONE}], "exceptions": {{}}}}',
            "compiled.shapes: 1x2x3 bf16 3d stands twice",
        ),
        (
            '{"recorded_on": {}, "shapes": [], "exceptions": []}',
            "compiled.exceptions: wanted an object, found []",
        ),
        (
            '{"recorded_on": {}, "shapes": [], "exceptions": {"1x2": {}}}',
            "compiled.exceptions: not a shape: '1x2'",
        ),
        (
            f'{{"recorded_on": {{}}, "shapes": [], "exceptions": {{{ONE}: {{}}}}}}',
            "compiled.exceptions: 1x2x3 bf16 3d: not among compiled.shapes",
        ),
    ],
)
def test_a_damaged_compiled_part_says_where_it_is_wrong(tmp_path, part, message):
    assert message in refusal(tmp_path, part)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("7", "wanted an object, found 7"),
        ("{}", "wanted eager and compiled, found []"),
        ('{"eager": ["a"]}', "wanted eager and compiled, found ['eager']"),
        ('{"eager": "a", "compiled": ["b"]}', 'eager: wanted a list, found "a"'),
        ('{"eager": ["a"], "compiled": [1]}', "compiled: wanted a list of texts, found 1"),
        ('{"eager": ["a"], "compiled": []}', "compiled: is empty"),
        ('{"eager": ["a"], "compiled": ["a"]}', "eager and compiled are the same: no exception"),
        ('{"eager": ["a"], "eager": ["b"], "compiled": ["b"]}', "'eager' stands twice"),
    ],
)
def test_a_damaged_exception_says_which_and_what(tmp_path, row, message):
    part = f'{{"recorded_on": {{}}, "shapes": [{ONE}], "exceptions": {{{ONE}: {row}}}}}'
    told = refusal(tmp_path, part)
    assert message in told
    assert "twice" in message or "compiled.exceptions: 1x2x3 bf16 3d: " in told


def refusal(tmp_path, part):
    """What is said of a map with this compiled part; it names the file."""
    path = tmp_path / "fold_map.json"
    path.write_text(
        '{"schema": 1, "device": "x", "recorded_on": {},\n"classes": {}, "compiled": ' + part + "}"
    )
    with pytest.raises(FoldMapError) as raised:
        folds.load(path)
    assert str(raised.value).startswith(f"{path}: ")
    return str(raised.value)


@given(maps, st.data())
def test_any_edit_of_the_file_reads_as_a_map_that_can_be_drawn_or_is_refused(
    tmp_path_factory, fold_map, data
):
    text = folds.dump(fold_map)
    at = data.draw(st.integers(0, len(text)))
    upto = data.draw(st.integers(at, min(len(text), at + 30)))
    put = data.draw(st.sampled_from(["", "{", "]", '"', "1", "null", ",", "[" * 5000, "9" * 5000]))
    path = tmp_path_factory.mktemp("map") / "fold_map.json"
    path.write_text(text[:at] + put + text[upto:], encoding="utf-8")
    try:
        read, refused = folds.load(path), None
    except FoldMapError as error:
        read, refused = None, str(error)
    if read is not None:
        assert folds.draw(read)
        assert folds.as_markdown(read)
    else:
        assert str(path) in refused


@given(maps)
def test_a_map_without_the_compiled_part_is_read_and_says_so_where_it_is_asked_for(
    tmp_path_factory, fold_map
):
    path = tmp_path_factory.mktemp("map") / "fold_map.json"
    folds.store(path, fold_map)
    assert folds.load(path) == fold_map
    if fold_map.compiled is not None:
        assert folds.load(path, compiled=True) == fold_map
        return
    assert '"compiled"' not in path.read_text(encoding="utf-8")
    with pytest.raises(NotRecorded, match=r"compiled .* is not recorded.* --kernelpin-record"):
        folds.load(path, compiled=True)


def test_a_map_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "new" / "fold_map.json"
    folds.store(path, FoldMap.of("a", {}, {Shape(1, 2, 3, "bf16"): "gemm"}))
    before = path.read_bytes()

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        folds.store(path, FoldMap.of("b", {}, {}))
    assert path.read_bytes() == before


# -- compiled against eager ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernels", "told"),
    [
        ([kernel("gemm", name="nvjet")], ("nvjet",)),
        ([kernel("copy", "memcpy", "Memcpy"), kernel("gemm", name="nvjet")], ("nvjet",)),
        (
            [kernel("gemv", name="gemv2T"), kernel("splitk_reduce", name="splitKreduce")],
            ("gemv2T", "splitKreduce"),
        ),
        ([kernel("triton_template", name="triton_tem_mm")], ("triton_tem_mm",)),
        ([kernel("triton_pointwise", name="triton_poi")], ("no GEMM: triton_poi",)),
        (
            [kernel("copy", "memcpy", "Memcpy"), kernel("triton_reduction", name="triton_red")],
            ("no GEMM: Memcpy + triton_red",),
        ),
        ([], NOTHING),
    ],
)
def test_the_kernels_of_a_product_are_named_or_what_runs_in_their_place(kernels, told):
    assert folds.products(kernels) == told


def test_inductors_kernels_for_a_linear_are_no_gemm_by_their_own_names():
    for name in ("triton_poi_fused_addmm_0", "triton_red_fused_mm_0", "triton_per_fused_addmm_1"):
        (told,) = folds.products([kernel(decode_kernel_name(name).family, name=name)])
        assert told == f"no GEMM: {name}"


@pytest.mark.parametrize(
    ("eager", "compiled", "agrees"),
    [
        (("nvjet",), ("nvjet",), True),
        (("nvjet",), ("nvjet", "nvjet"), False),
        (("nvjet", "splitKreduce"), ("splitKreduce", "nvjet"), False),
        (NOTHING, NOTHING, True),
        (("nvjet",), NOTHING, False),
    ],
)
def test_the_same_kernels_are_the_same_names_as_often_in_the_same_order(eager, compiled, agrees):
    assert Pair(eager, compiled).agrees is agrees


@given(sweeps)
def test_a_sweep_is_held_to_what_was_made_of_it(found):
    part = CompiledMap.of({}, found)
    assert set(part.shapes) == set(found)
    assert {s for s in found if not found[s].agrees} == set(part.exceptions)
    assert {d.shape for d in part.differences(found)} == {s for s in found if cannot_tell(s, found)}


@given(sweeps, st.data())
def test_exactly_the_shapes_that_are_not_as_recorded_are_told_each_with_what_is_wrong(found, data):
    part, now, wrong = CompiledMap.of({}, found), dict(found), {}
    other = Pair(("a GEMM of its own",), ("and another",))
    for shape, was in found.items():
        edit = data.draw(st.sampled_from(["none", "lost", "agrees", "differs"]))
        if edit == "lost":
            del now[shape]
            wrong[shape] = "on the map, and not swept"
        elif edit == "agrees":
            now[shape] = Pair(("nvjet",), ("nvjet",))
            if not was.agrees:
                wrong[shape] = "an exception on the map, and compiled runs eager's GEMM kernels now"
        elif edit == "differs":
            now[shape] = other
            wrong[shape] = (
                "compiled runs other GEMM kernels than eager, and it is no exception on the map"
                if was.agrees
                else "an exception on the map, and its kernels are others now"
            )
        elif cannot_tell(shape, found):
            wrong[shape] = "eager launched nothing: the trace cannot tell"
    for shape in data.draw(st.sets(shapes, max_size=3)) - set(found):
        now[shape] = data.draw(st.sampled_from([Pair(("nvjet",), ("nvjet",)), other]))
        wrong[shape] = (
            "swept, and not on the map"
            if now[shape].agrees
            else "compiled runs other GEMM kernels than eager, and it is no exception on the map"
        )
    assert {d.shape: d.what for d in part.differences(now)} == wrong
    for difference in part.differences(now):
        assert difference.was == part.exceptions.get(difference.shape)
        assert difference.now == now.get(difference.shape)


def cannot_tell(shape, found):
    """A product that launched nothing eagerly: its records are missing, unless it is empty."""
    return found[shape].eager == NOTHING and 0 not in (shape.m, shape.k, shape.n)


def test_a_difference_is_told_with_both_lists_of_kernels():
    was = Pair(("nvjet", "splitKreduce"), NOTHING)
    told = folds.Difference(Shape(1, 2, 3, "bf16"), "wrong", was, Pair(("a",), ("b",))).lines()
    assert told == [
        "1x2x3 bf16 contiguous: wrong",
        "  map: eager     nvjet + splitKreduce",
        "  map: compiled  no GEMM: nothing",
        "  now: eager     a",
        "  now: compiled  b",
    ]


@given(compiled_maps)
def test_an_exception_is_one_line_of_the_file(part):
    lines = folds.dump(FoldMap.of("x", {}, {}, part)).splitlines()
    for shape in part.exceptions:
        assert sum(line.strip().startswith(f'"{shape}": {{"eager"') for line in lines) == 1


@given(compiled_maps)
def test_the_drawing_counts_the_shapes_and_has_each_exception_with_labels_that_differ(part):
    first, *rows = folds.draw_compiled(part)
    same = len(part.shapes) - len(part.exceptions)
    assert first.startswith(f"compiled: {same} of ")
    assert "torch 2.11.0" in first
    for shape in part.exceptions:
        (row,) = (row.strip() for row in rows if row.strip().startswith(f"{shape} "))
        _, eager, told = re.split(r"\s{2,}", row)
        assert eager != told


def test_a_map_without_the_compiled_part_is_drawn_with_the_command_that_records_it():
    fold_map = FoldMap.of("x", {}, {Shape(1, 2, 3, "bf16"): "gemm"})
    last = folds.draw(fold_map)[-1]
    assert "compiled: not recorded" in last
    assert "pytest -m gpu perf_tests/test_fold_map.py --kernelpin-record" in last


def test_the_command_draws_the_exceptions_as_text_and_as_a_table(tmp_path, capsys):
    found = {
        Shape(8, 1, 8, "bf16"): Pair(("nvjet_TNT",), ("no GEMM: triton_poi_fused_addmm_0",)),
        Shape(8, 8, 8, "bf16"): Pair(("nvjet_TNT",), ("nvjet_TNT",)),
    }
    part = CompiledMap.of({"torch": "2.11.0", "triton": "3.6.0"}, found)
    folds.store(tmp_path / "x" / "fold_map.json", FoldMap.of("X", {}, {}, part))
    assert cli.main(["folds", "--baselines", str(tmp_path)]) == 0
    drawn = capsys.readouterr().out
    assert "1 of 2 shapes run eager's GEMM kernels, 1 exception (torch 2.11.0, triton" in drawn
    assert "where: K = 1, M = 8, N = 8, bf16 (1)" in drawn
    assert re.search(r"8x1x8 bf16 contiguous +nvjet_TNT +no GEMM: triton_poi_fused_addmm_0", drawn)
    assert cli.main(["folds", "--markdown", "--baselines", str(tmp_path)]) == 0
    assert "| 8x1x8 bf16 contiguous | nvjet\\_TNT | no GEMM: triton" in capsys.readouterr().out


def test_a_missing_map_says_how_to_record_one(tmp_path):
    with pytest.raises(FoldMapError, match="--kernelpin-record"):
        folds.load(tmp_path / "fold_map.json")


def test_the_command_draws_the_recorded_maps(capsys):
    assert cli.main(["folds", "--baselines", str(ROOT / "baselines")]) == 0
    drawn = capsys.readouterr().out
    assert "NVIDIA H200: 600 shapes of nn.Linear with bias" in drawn
    assert "NOT    copy kernel + gemv" in drawn


def test_the_command_says_when_there_is_no_map(tmp_path, capsys):
    assert cli.main(["folds", "--baselines", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no fold map" in captured.err
    assert "in a checkout of kernelpin, on a GPU: pytest" in captured.err


def test_the_documented_table_is_the_maps(capsys):
    """docs/claims.md holds what `kernelpin folds --markdown` prints."""
    assert cli.main(["folds", "--markdown", "--baselines", str(ROOT / "baselines")]) == 0
    table = capsys.readouterr().out.strip()
    assert table in (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
