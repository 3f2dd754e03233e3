"""What messages and reports are made of: units, names, tables."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelpin.render import (
    clean,
    count,
    elide,
    family_label,
    format_change,
    format_ns,
    format_us,
    listing,
    paint,
    table,
    width_of,
)

SCALE = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
times = st.floats(min_value=1e-3, max_value=1e15)


def read(text: str) -> float:
    value, unit = text.split(" ")
    return float(value) * SCALE[unit]


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (736, "736 ns"),
        (0.25, "0.25 ns"),
        (999.96, "1.000 µs"),
        (2_848, "2.848 µs"),
        (18_240, "18.24 µs"),
        (176_000, "176.0 µs"),
        (999_949, "999.9 µs"),
        (999_960, "1.000 ms"),
        (1_203_004, "1.203 ms"),
        (2e9, "2.000 s"),
        (12_345e9, "12340 s"),
        (-18_240, "-18.24 µs"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_a_time_has_four_digits_and_the_unit_that_suits_it(ns, text):
    assert format_ns(ns) == text


def test_microseconds_read_as_nanoseconds_do():
    assert format_us(18.24) == format_ns(18_240) == "18.24 µs"


@given(times)
def test_a_time_reads_back_within_four_digits(ns):
    assert read(format_ns(ns)) == pytest.approx(ns, rel=0.5001e-3)


@given(st.floats(min_value=1e3, max_value=9.9e12))
def test_a_time_from_a_microsecond_up_shows_exactly_four_digits(ns):
    value = format_ns(ns).split(" ")[0]
    assert len(value.replace(".", "")) == 4


@given(times, times)
def test_a_longer_time_never_reads_shorter(a, b):
    short, long = sorted((a, b))
    assert read(format_ns(short)) <= read(format_ns(long)) * (1 + 1e-12)


@given(st.integers(min_value=0, max_value=999))
def test_whole_nanoseconds_are_shown_as_they_are(ns):
    assert format_ns(ns) == f"{ns} ns"


@given(times)
def test_a_negative_time_is_the_positive_one_with_a_sign(ns):
    assert format_ns(-ns) == f"-{format_ns(ns)}"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.163, "+16.3 %"), (0.952, "-4.8 %"), (1.0, "+0.0 %"), (0.99999, "+0.0 %"), (2.5, "+150.0 %"),
     (math.nan, "nan")],
)  # fmt: skip
def test_a_change_is_a_signed_percentage(ratio, text):
    assert format_change(ratio) == text


def test_counts_and_lists_read_as_words():
    assert [count(n, "kernel") for n in (0, 1, 2)] == ["no kernel", "1 kernel", "2 kernels"]
    assert count(2, "copy", "copies") == "2 copies"
    assert [listing(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "", "a", "a and b", "a, b and c"]  # fmt: skip
    assert listing(["a", "b"], "or") == "a or b"
    assert family_label("gemm") == "GEMM"
    assert family_label("elementwise") == "elementwise"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("aten::mm", "aten::mm"),
        ("λ größer 核", "λ größer 核"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("right\u202eleft", "right\\u202eleft"),
        ("half \ud800", "half \\ud800"),
        ("sep\u2028", "sep\\u2028"),
    ],
)
def test_a_name_is_shown_on_one_line_and_does_nothing_to_a_terminal(name, shown):
    assert clean(name) == shown


@given(st.text(st.characters()))
def test_a_cleaned_name_prints_in_any_encoding_of_unicode(name):
    assert clean(name).isprintable()
    clean(name).encode("utf-8")


def test_a_long_name_is_cut_in_the_middle_at_underscores():
    name = "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_splitK_TNT"
    assert elide(name, 32) == "nvjet_sm90_tst_64x8_…_splitK_TNT"
    assert elide(name, 45) == name
    assert elide("abcdefghij", 5) == "abc…j"


@given(st.text(st.characters(codec="utf-8")), st.integers(min_value=0, max_value=80))
def test_an_elided_name_fits_and_keeps_both_its_ends(name, width):
    shown = elide(name, width)
    assert len(shown) <= max(width, 0)
    if len(name) <= width:
        assert shown == name
    elif width >= 3:
        start, end = shown.split("…")[0], shown.rpartition("…")[2]
        assert start
        assert name.startswith(start)
        assert name.endswith(end)


def test_a_table_aligns_words_left_and_figures_right():
    rows = [["kernel", "time"], ["a", "18.24 µs"], ["longer name", "–"], ["核", "1.2 µs"]]
    assert table(rows) == [
        "kernel           time",
        "a            18.24 µs",
        "longer name         –",
        "核             1.2 µs",
    ]


def test_a_markdown_table_shows_markup_as_text():
    lines = table([["name", "n"], ["a|b <script>\n`x` *y*", "1"]], markdown=True)
    assert lines == [
        "| name | n |",
        "| --- | ---: |",
        "| a\\|b &lt;script&gt; \\`x\\` \\*y\\* | 1 |",
    ]


def test_a_table_without_rows_is_nothing_and_short_rows_are_filled():
    assert table([]) == []
    assert table([["a", "b"], ["1"]]) == ["a  b", "1"]


cells = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=6))
def test_a_markdown_table_has_as_many_cells_as_it_was_given(rows):
    for line in table(rows, markdown=True):
        assert "\n" not in line
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 4


@given(st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1, max_size=6))
def test_the_columns_of_a_table_stand_under_each_other(rows):
    first = max(width_of(clean(row[0])) for row in rows)
    for line in table(rows):
        assert "\n" not in line
        assert width_of(line) <= first + 2 + max(width_of(clean(row[1])) for row in rows)


def test_colour_is_put_on_only_where_wanted():
    assert paint("x", "offender", color=False) == "x"
    assert paint("x", "offender", color=True) == "\x1b[1;31mx\x1b[0m"
    assert paint("", "offender", color=True) == ""
