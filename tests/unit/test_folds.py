"""The fold map: classes, conditions, changes, and a file that reads back or says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelpin import cli, folds
from kernelpin.folds import FoldMap, FoldMapError, Shape

ROOT = Path(__file__).parents[2]

shapes = st.builds(
    Shape,
    *[st.integers(0, 9000)] * 3,
    st.sampled_from(["bf16", "fp16", "fp32"]),
    st.sampled_from(["contiguous", "transposed", "sliced", "3d"]),
)
classes = st.sampled_from(["gemm", "memset + gemm", "gemm + elementwise", "nothing"])
maps = st.dictionaries(shapes, classes, min_size=1, max_size=30).map(
    lambda found: FoldMap.of("NVIDIA H200", {"torch": "2.11.0"}, found)
)


def kernel(family, category="kernel"):
    return SimpleNamespace(family=family, category=category)


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
    assert "no fold map" in capsys.readouterr().out


def test_the_documented_table_is_the_maps(capsys):
    """docs/claims.md holds what `kernelpin folds --markdown` prints."""
    assert cli.main(["folds", "--markdown", "--baselines", str(ROOT / "baselines")]) == 0
    table = capsys.readouterr().out.strip()
    assert table in (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
