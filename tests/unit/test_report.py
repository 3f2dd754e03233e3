"""A report says what happened, in numbers that add up, whatever the tests and kernels are named."""

import json
import math
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelpin.report import (
    Difference,
    Kernel,
    Paired,
    Report,
    ReportError,
    Row,
    annotations,
    headline,
    outcome_counts,
    publish,
    read_report,
    report_json,
    write_summary,
)
from kernelpin.report.markdown import LIMIT_BYTES
from kernelpin.report.publish import COMMENT_BYTES
from kernelpin.report.rows import OUTCOMES
from kernelpin.verdict import Outcome

SLOWER = Row(
    "perf_tests/test_timings.py::test_device_time[geglu-eager]",
    "slower",
    failed=True,
    metric="device_us",
    gpu="NVIDIA H200",
    file="perf_tests/test_timings.py",
    line=31,
    baseline=41.2,
    now=47.9,
    ratio=1.163,
    low=1.151,
    high=1.174,
    limit=0.05,
    message="slower than the baseline: 47.9 µs, was 41.2 µs: +16.3 % (limit +5 %)\n  evidence",
    kernels_before=(Kernel("flash_fwd_kernel", 1, 38.9),),
    kernels_now=(Kernel("flash_fwd_kernel", 1, 39.0), Kernel("mul_kernel", 1, 6.5)),
)
OTHER_KERNELS = Row(
    "perf_tests/test_linear.py::test_bias_is_folded[bf16]",
    "other kernels",
    failed=True,
    gpu="NVIDIA H200",
    file="perf_tests/test_linear.py",
    line=12,
    message="expected 1 GEMM kernel and no other under aten::linear, found 2 kernels\n  tree",
    trace="traces/linear.json.gz",
)
UNCLEAR = Row(
    "perf_tests/test_timings.py::test_device_time[mlp]",
    "unclear",
    metric="device_us",
    gpu="NVIDIA H200",
    baseline=100.0,
    now=104.0,
    ratio=1.04,
    low=0.99,
    high=1.09,
    limit=0.05,
    detectable=0.11,
    reason="thermal slowdown in 3 of 4 processes",
)


def same(number, **changes):
    fields = {"metric": "device_us", "gpu": "NVIDIA H200", "baseline": 10.0, "now": 10.0}
    return Row(f"perf_tests/test_timings.py::test_same[{number}]", "same", **fields | changes)


def recorded(number, outcome="same"):
    return Row(f"t.py::test_trace[{number}]", outcome, source="recorded", gpu="nvidia-a100")


SESSION = Report(
    rows=(
        *map(same, range(46)),
        UNCLEAR,
        OTHER_KERNELS,
        *map(recorded, range(80)),
        SLOWER,
    ),
    gpu="NVIDIA H200",
    environment=(("torch", "2.13.0"), ("driver", "580.159")),
    differences=(Difference("torch", "2.11.0", "2.13.0", 48),),
    proposed="kernelpin-report/proposed",
    commit="3f9c1ab",
    ci=True,
)


# A reader of GitHub's markdown, as far as the tests need one.


def table_rows(summary):
    """The cells of every table's rows, header and ruler left out; GitHub's rule for pipes."""
    lines = [line for line in unfenced(summary) if line.startswith("|")]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    return [row for row in rows if row[0].strip() not in ("test", "---")]


def unfenced(summary):
    fence = None
    for line in summary.split("\n"):
        if fence is None and (opened := re.match("`{3,}", line)):
            fence = opened[0]
        elif fence is not None:
            if line.strip() == fence:
                fence = None
        else:
            yield line


# The headline.


def test_the_headline_counts_the_outcomes_and_keeps_recorded_traces_apart():
    assert headline(SESSION) == (
        "1 slower, 1 other kernels, 46 same, 1 unclear on NVIDIA H200; 80 checks on recorded traces"
    )


def test_the_headline_of_an_empty_run_says_that_nothing_ran():
    assert headline(Report()) == "no checks ran"


def test_the_headline_names_each_gpu_the_cpu_and_what_was_skipped():
    report = Report(
        rows=(
            same(1),
            same(2, gpu="NVIDIA A100"),
            Row("cpu", "same"),
            Row("cpu2", "other kernels", failed=True),
            Row("gpu", "skipped"),
            recorded(1, "other kernels"),
            recorded(2),
        )
    )
    assert headline(report) == (
        "1 same on NVIDIA A100; 1 same on NVIDIA H200; "
        "2 checks on the CPU (1 other kernels); "
        "2 checks on recorded traces (1 other kernels); 1 skipped"
    )


def test_what_came_to_nothing_is_told_by_itself_as_nobody_knows_where_it_ran():
    report = Report(
        rows=(
            Row("errs", "error", failed=True),
            Row("errs on what was recorded", "error", failed=True, source="recorded"),
            Row("never measured", "unclear"),
            Row("errs on a GPU", "error", failed=True, gpu="NVIDIA H200"),
            Row("a ratio", "unclear", metric="host_ratio", now=1.2),
            recorded(1, "error"),
        )
    )
    assert headline(report) == (
        "1 error on NVIDIA H200; 1 check on the CPU (1 unclear); "
        "1 check on recorded traces (1 error); 2 error, 1 unclear"
    )


def test_a_skipped_row_says_why():
    summary = write_summary(Report(rows=(Row("t", "skipped", reason="no GPU: no driver"),)))
    assert "| skipped<br>no GPU: no driver |" in summary


def test_every_outcome_of_a_verdict_is_known_here():
    assert {outcome.replace("_", " ") for outcome in Outcome} <= set(OUTCOMES)


rows_of_any_kind = st.builds(
    Row,
    st.text(max_size=8),
    st.sampled_from(OUTCOMES),
    failed=st.booleans(),
    source=st.sampled_from(["live", "recorded"]),
    gpu=st.sampled_from([None, "NVIDIA H200", "NVIDIA L4"]),
)


@given(st.lists(rows_of_any_kind, max_size=30))
def test_the_numbers_of_the_headline_are_the_outcomes(rows):
    """Each row is in one number, and each number is the count of its word."""
    sentence = headline(Report(rows=tuple(rows)))
    told = Counter()
    for part in sentence.split("; "):
        checks = re.fullmatch(r"(\d+) checks? on .*?(?: \((.*)\))?", part)
        inner = checks[2] or "" if checks else part.partition(" on ")[0]
        named = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z ]+)", inner)}
        told.update(named)
        if checks:
            told["same"] += int(checks[1]) - sum(named.values())
    assert +told == Counter(row.outcome for row in rows)
    assert outcome_counts(rows) == dict(+told)


# The summary.


def test_a_reader_sees_first_what_got_slower_why_and_how_to_accept_it():
    summary = write_summary(SESSION)
    first_screen = summary[:1500]
    assert first_screen.startswith(
        "## kernelpin failed: 1 slower, 1 other kernels, 46 same, 1 unclear on NVIDIA H200;"
    )
    assert "41.20 µs | 47.90 µs | +16.3 % (+15.1 … +17.4) | +5 %" in first_screen
    assert "**new** <code>mul_kernel</code> 6.500 µs" in first_screen
    assert "expected 1 GEMM kernel and no other under aten::linear, found 2 kernels" in first_screen
    assert "kernelpin baselines accept kernelpin-report/proposed --reason" in first_screen
    assert "thermal slowdown in 3 of 4 processes" in first_screen


def test_failures_come_first_and_unchanged_rows_are_folded():
    summary = write_summary(SESSION)
    shown, *folds = summary.split("<details>\n")
    names = [re.sub("<.*?>", "", row[0]).strip() for row in table_rows(shown)]
    assert names == [SLOWER.nodeid, OTHER_KERNELS.nodeid, UNCLEAR.nodeid]
    assert [fold.partition("\n")[0] for fold in folds] == [
        "<summary>46 unchanged</summary>",
        "<summary>80 unchanged on recorded traces</summary>",
    ]
    assert [len(table_rows(fold)) for fold in folds] == [46, 80]


def test_the_worse_of_two_slowdowns_comes_first():
    worse = same("worse", ratio=1.4)
    bad = same("bad", ratio=1.1)
    rows = [Row(r.nodeid, "slower", failed=True, ratio=r.ratio) for r in (bad, worse)]
    assert "worse" in table_rows(write_summary(Report(rows=tuple(rows))))[0][0]


def test_a_failure_comes_before_what_passed_however_bad():
    rows = (Row("passed", "unclear"), Row("failed", "no baseline", failed=True))
    assert "failed" in table_rows(write_summary(Report(rows=rows)))[0][0]


def test_ten_failures_are_told_in_full_and_the_rest_counted():
    rows = tuple(Row(f"t{n}", "error", failed=True, message=f"told {n}") for n in range(12))
    summary = write_summary(Report(rows=rows))
    assert summary.count("told ") == 10
    assert "2 more failures: see report.json." in summary


def test_differences_of_the_environment_are_named():
    assert "- torch: <code>2.11.0</code> → <code>2.13.0</code> (48 tests)" in write_summary(SESSION)


def test_a_green_run_asks_for_nothing():
    summary = write_summary(Report(rows=(same(1), recorded(1)), proposed="report/proposed"))
    assert summary.startswith("## kernelpin passed: 1 same on NVIDIA H200; 1 check on recorded")
    assert "accept" not in summary


def test_a_problem_of_the_session_fails_it_though_every_row_passed():
    summary = write_summary(Report(rows=(same(1),), problems=("no GPU: no driver",)))
    assert summary.startswith("## kernelpin failed: 1 same")
    assert "- <strong>no GPU: no driver</strong>" in summary


def test_the_accept_command_survives_a_folder_with_spaces():
    summary = write_summary(Report(rows=(SLOWER,), proposed="my report/proposed"))
    assert "kernelpin baselines accept 'my report/proposed' --reason" in summary


def test_both_comparisons_are_told_where_there_is_a_base():
    paired = Paired(
        "main", "same", 47.8, 47.9, 1.002, 0.998, 1.006, 0.01, ((47.8, 47.9),) * 4, None
    )
    row = Row(
        SLOWER.nodeid,
        "already slower",
        metric="device_us",
        gpu="NVIDIA H200",
        baseline=41.2,
        now=47.9,
        ratio=1.163,
        paired=paired,
    )
    cells = table_rows(write_summary(Report(rows=(row,))))[0]
    assert "+16.3 %<br>+0.2 % (-0.2 … +0.6) against <code>main</code>, 4 pairs" in cells[3]
    assert "already slower<br>against <code>main</code>: same" in cells[6]


def test_what_the_base_was_not_compared_for_is_told():
    paired = Paired("main", "not compared", reason="a shallow clone")
    row = Row("t", "slower", failed=True, ratio=1.1, paired=paired)
    cells = table_rows(write_summary(Report(rows=(row,))))[0]
    assert cells[3].strip() == "+10.0 %"
    assert "<br>against <code>main</code>: not compared: a shallow clone" in cells[6]


def test_kernels_that_differ_from_the_base_come_before_those_that_differ_from_the_baseline():
    paired = Paired(
        "main", "slower", ratio=1.1, kernels_base=(Kernel("a"),), kernels_head=(Kernel("b"),)
    )
    row = Row(
        "t", "slower", kernels_before=(Kernel("c"),), kernels_now=(Kernel("b"),), paired=paired
    )
    cells = table_rows(write_summary(Report(rows=(row,))))[0]
    assert cells[5].strip() == "**new** <code>b</code><br>**gone** <code>a</code>"


def test_the_kernel_that_got_slower_is_told_where_no_kernel_is_new():
    row = Row(
        "t",
        "slower",
        limit=0.05,
        kernels_before=(Kernel("a_kernel", 1, 10.0), Kernel("b_kernel", 1, 10.0)),
        kernels_now=(Kernel("a_kernel", 1, 10.1), Kernel("b_kernel", 1, 14.0)),
    )
    assert "<code>b_kernel</code> 10.00 µs → 14.00 µs |" in write_summary(Report(rows=(row,)))


def test_a_kernel_that_runs_more_often_is_told_once():
    row = Row(
        "t",
        "slower",
        kernels_before=(Kernel("a_kernel", 1, 10.0), Kernel("gone_kernel", 2)),
        kernels_now=(Kernel("a_kernel", 3, 14.0),),
    )
    cell = table_rows(write_summary(Report(rows=(row,))))[0][5]
    assert cell.strip() == (
        "**gone** <code>gone_kernel</code> × 2<br><code>a_kernel</code> × 1 → × 3"
    )


@pytest.mark.parametrize("outcome", ["other kernels", "other ops"])
def test_a_failed_claim_says_what_it_found_and_where_once(outcome):
    row = Row("t", outcome, failed=True, source="recorded", gpu="G", reason="expected 1")
    cells = table_rows(write_summary(Report(rows=(row,))))[0]
    assert cells[5].strip() == "expected 1"
    assert cells[6].strip() == f"<strong>{outcome}</strong><br>on a recorded trace of G"


def test_a_claim_is_changed_in_the_test_and_not_accepted():
    def advice(*outcomes):
        rows = tuple(Row(outcome, outcome, failed=True) for outcome in outcomes)
        return re.findall(r"\*\*(Other \w+) on purpose", write_summary(Report(rows=rows)))

    assert advice("other ops") == ["Other ops"]
    assert advice("other ops", "other kernels") == ["Other kernels"]
    assert not advice("slower", "error")


def test_two_kernels_of_one_short_name_are_told_in_full():
    before = "void at::native::elementwise_kernel<128, 2, at::native::AddFunctor<float>>(int)"
    now = before.replace("128, 2", "128, 4")
    row = Row("t", "slower", kernels_before=(Kernel(before),), kernels_now=(Kernel(now),))
    cell = table_rows(write_summary(Report(rows=(row,))))[0][5]
    assert "128, 4" in cell
    assert "128, 2" in cell


def test_a_published_baseline_is_told_as_such():
    row = same(1, reference="Profiling in PyTorch, part 2")
    assert "10.00 µs<br>published" in write_summary(Report(rows=(row,)))


# Names nobody should trust.

hostile = st.text(max_size=60) | st.text(alphabet="|\\`<>&*_[]()!#@:/-\n\r\t\x00\x85\u2028a1 ")
figures = st.none() | st.floats()
kernels = st.none() | st.lists(st.builds(Kernel, hostile, st.floats(0, 9), figures)).map(tuple)
hostile_rows = st.builds(
    Row,
    hostile,
    st.sampled_from(OUTCOMES) | hostile,
    failed=st.booleans(),
    source=st.sampled_from(["live", "recorded"]),
    metric=st.sampled_from(["device_us", "kernel_us", "host_ratio", "counts", "trace"]),
    gpu=st.none() | hostile,
    file=st.none() | hostile,
    line=st.none() | st.integers(1, 10**6),
    baseline=figures,
    now=figures,
    ratio=figures,
    low=figures,
    high=figures,
    limit=figures,
    detectable=figures,
    reason=st.none() | hostile,
    message=st.none() | hostile,
    kernels_before=kernels,
    kernels_now=kernels,
    machine=st.lists(hostile, max_size=2).map(tuple),
    reference=st.none() | hostile,
    trace=st.none() | hostile,
    paired=st.none() | st.builds(Paired, hostile, hostile, ratio=figures, reason=hostile),
)
hostile_reports = st.builds(
    Report,
    rows=st.lists(hostile_rows, max_size=6).map(tuple),
    environment=st.dictionaries(hostile, hostile, max_size=3).map(lambda d: tuple(d.items())),
    differences=st.lists(st.builds(Difference, hostile, hostile, hostile), max_size=3).map(tuple),
    problems=st.lists(hostile, max_size=3).map(tuple),
    warnings=st.lists(hostile, max_size=3).map(tuple),
    proposed=st.none() | hostile,
    commit=st.none() | hostile,
)


@settings(max_examples=60)
@given(hostile_reports)
def test_whatever_the_names_each_row_is_one_line_of_seven_cells(report):
    rows = table_rows(write_summary(report))
    assert len(rows) == len(report.rows)
    assert {len(row) for row in rows} <= {7}


@settings(max_examples=60)
@given(hostile_reports)
def test_only_our_own_tags_are_tags(report):
    tags = re.findall("</?([^>]*)>?", "\n".join(unfenced(write_summary(report))))
    assert set(tags) <= {"strong", "code", "br", "sub", "details", "details open", "summary"}


@given(hostile)
def test_a_message_cannot_end_its_code_block(message):
    report = Report(rows=(Row("t", "error", failed=True, message=f"x{message}\n```\n~~~"),))
    lines = list(unfenced(write_summary(report)))
    assert "x" not in "".join(lines).split("</summary>")[-1]
    assert lines[-3:] == ["", "</details>", "", ""][-3:]


class Text(HTMLParser):
    """The text of each table cell, as a browser shows it."""

    def __init__(self):
        super().__init__()
        self.cells = []
        self.tags = set()
        self.in_cell = False

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.in_cell = tag == "td" or (self.in_cell and tag not in ("tr", "th"))
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag):
        self.in_cell = self.in_cell and tag != "td"

    def handle_data(self, data):
        if self.in_cell:
            self.cells[-1] += data


OUR_TAGS = {"h2", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "strong", "br"}


@given(hostile)
def test_a_markdown_parser_shows_the_name_itself(name):
    parser = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False})
    row = Row(name, "slower", failed=True, gpu="G", reason=name)
    shown = Text()
    shown.feed(parser.render(write_summary(Report(rows=(row,)))))
    assert shown.tags <= OUR_TAGS
    assert len(shown.cells) == 7
    if name.isprintable():
        assert shown.cells[0] == name


def test_script_pipe_newline_and_backtick_show_as_text():
    row = Row("t.py::t[<script>|`a`\nb]", "slower", failed=True)
    summary = write_summary(Report(rows=(row,)))
    assert "<code>[&#60;script&#62;&#124;&#96;a&#96;&#92;nb]</code>" in summary


def test_a_text_that_turns_around_the_reading_direction_is_defused():
    assert "t&#92;u202egpj" in write_summary(Report(rows=(Row("t\u202egpj", "slower"),)))


def test_nobody_is_mentioned():
    summary = write_summary(Report(problems=("ask @someone",)))
    assert "ask &#64;&#8288;someone" in summary


@pytest.mark.parametrize("name", ["[a](b)", "![a](b)", "[a][b]", "<http://b>", "http://b www.b.c"])
def test_a_name_is_no_link_and_no_image(name):
    parser = pytest.importorskip("markdown_it").MarkdownIt("gfm-like", {"linkify": False})
    html = parser.render(write_summary(Report(rows=(Row(name, "slower"),), problems=(name,))))
    assert not re.search("<(a|img)", html)


# Size.


def test_the_folded_part_is_cut_first_and_says_how_much_is_missing():
    report = Report(rows=(SLOWER, UNCLEAR, *(same(n) for n in range(20_000))))
    summary = write_summary(report)
    assert len(summary.encode()) <= LIMIT_BYTES
    shown = len(table_rows(summary)) - 2
    assert shown > 3_000
    assert f"{20_000 - shown} more rows unchanged: see report.json." in summary
    assert summary.rstrip().endswith("</details>")
    assert SLOWER.message.splitlines()[1] in summary


def test_many_long_failures_stay_within_the_limit_too():
    failure = Row("t" * 5000, "error", failed=True, message="`\n" * 50_000)
    summary = write_summary(Report(rows=(failure,) * 20_000, proposed="p"))
    assert len(summary.encode()) <= LIMIT_BYTES
    assert "more rows to look at: see report.json." in summary


@settings(max_examples=60)
@given(hostile_reports, st.integers(0, 5_000))
def test_the_size_bound_holds_and_every_fold_is_closed(report, limit):
    summary = write_summary(report, limit)
    assert len(summary.encode()) <= limit
    lines = list(unfenced(summary))
    assert sum(line.startswith("<details") for line in lines) == lines.count("</details>")


def test_every_row_is_shown_or_counted_as_missing():
    report = Report(rows=tuple(same(n) for n in range(100)))
    for limit in range(700, 14_000, 97):
        summary = write_summary(report, limit)
        missing = re.search(r"(\d+) (?:more )?rows unchanged: see", summary)
        if "<details>" in summary:
            assert len(table_rows(summary)) + int(missing[1] if missing else 0) == 100


# JSON.


def through_json(report):
    return read_report(json.loads(json.dumps(report_json(report), allow_nan=False)))


def test_a_report_comes_back_from_json_as_it_was():
    assert through_json(SESSION) == SESSION


@settings(max_examples=60)
@given(hostile_reports)
def test_the_summary_can_be_rebuilt_from_the_json_alone(report):
    assert write_summary(through_json(report)) == write_summary(report)


def test_the_json_names_its_schema_its_version_and_the_outcome_of_the_run():
    document = report_json(SESSION)
    assert (document["schema"], document["version"]) == ("kernelpin-report", 1)
    assert document["failed"] is True
    assert document["headline"] == headline(SESSION)
    assert document["counts"]["live"] == {"slower": 1, "other kernels": 1, "same": 46, "unclear": 1}
    assert document["counts"]["recorded"] == {"same": 80}
    assert document["environment"]["torch"] == "2.13.0"


def test_a_figure_that_is_no_number_is_null():
    document = report_json(Report(rows=(same(1, now=math.nan, ratio=math.inf),)))
    assert document["rows"][0]["now"] is None
    assert document["rows"][0]["ratio"] is None


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "no kernelpin report"),
        ({"schema": "other"}, "no kernelpin report"),
        ({"schema": "kernelpin-report", "version": 2}, "version 2, this kernelpin reads version 1"),
        ({"schema": "kernelpin-report", "version": 1}, "damaged report: KeyError: 'rows'"),
        ({"schema": "kernelpin-report", "version": 1, "rows": [{}]}, "damaged report: TypeError"),
    ],
)
def test_another_document_is_refused_with_what_was_found(document, told):
    with pytest.raises(ReportError, match=re.escape(told)):
        read_report(document)


def test_a_newer_key_is_passed_over():
    document = report_json(SESSION) | {"later": 1}
    document["rows"][0]["later"] = 2
    assert read_report(document) == SESSION


# Annotations.


def test_a_failure_is_annotated_at_its_file_and_line():
    assert annotations(Report(rows=(SLOWER,)))[0].startswith(
        "::error file=perf_tests/test_timings.py,line=31,title=kernelpin%3A slower::"
        "perf_tests/test_timings.py::test_device_time[geglu-eager]%0A"
        "slower than the baseline: 47.9 µs, was 41.2 µs: +16.3 %25 (limit +5 %25)%0A"
    )


def test_what_passed_is_not_annotated():
    assert annotations(Report(rows=(UNCLEAR, same(1)))) == []


def test_the_nine_worst_are_annotated_and_the_rest_counted():
    rows = tuple(Row(f"t{n}", "slower", failed=True, ratio=1 + n / 100, gpu="G") for n in range(30))
    lines = annotations(Report(rows=rows, problems=("no baselines",)))
    assert len(lines) == 10
    assert lines[0] == "::error title=kernelpin::no baselines"
    assert lines[1].endswith("::t29%0Aslower")
    assert lines[9] == "::error title=kernelpin::and 22 more: 30 slower on G"


@given(hostile, hostile)
def test_no_name_can_begin_a_workflow_command_of_its_own(name, file):
    report = Report(rows=(Row(name, "error", failed=True, file=file, line=1, message=name),))
    (line,) = annotations(report)
    assert not re.search("[\r\n]", line)
    properties = line.removeprefix("::error ").partition("::")[0]
    assert all(re.match("(file|line|title)=", part) for part in properties.split(","))
    assert re.fullmatch("(?:[^%]|%(?:25|0D|0A|3A|2C))*", line)


# Where it goes.


def test_the_folder_gets_summary_comment_and_json(tmp_path):
    assert publish(SESSION, tmp_path / "new" / "report", environ={}) == []
    folder = tmp_path / "new" / "report"
    assert sorted(path.name for path in folder.iterdir()) == [
        "comment.md",
        "report.json",
        "summary.md",
    ]
    assert (folder / "summary.md").read_text(encoding="utf-8") == write_summary(SESSION)
    assert read_report(json.loads((folder / "report.json").read_text())) == SESSION


def test_the_comment_fits_into_a_comment(tmp_path):
    report = Report(rows=(SLOWER, *(same(n) for n in range(5_000))))
    publish(report, tmp_path, environ={})
    comment = (tmp_path / "comment.md").read_text(encoding="utf-8")
    assert len(comment.encode()) <= COMMENT_BYTES < len(write_summary(report).encode())


def test_a_report_that_cannot_be_written_leaves_the_old_one_whole(tmp_path, monkeypatch):
    publish(SESSION, tmp_path, environ={})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space left"):
        publish(Report(), tmp_path, environ={})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_step_summary_is_appended_to(tmp_path):
    path = tmp_path / "step.md"
    path.write_text("an earlier step's\n")
    publish(SESSION, environ={"GITHUB_STEP_SUMMARY": str(path)})
    assert path.read_text(encoding="utf-8") == "an earlier step's\n\n" + write_summary(SESSION)


def test_a_step_summary_that_is_nearly_full_is_not_overrun(tmp_path):
    path = tmp_path / "step.md"
    path.write_text("x" * (1024 * 1024 - 5_000))
    publish(SESSION, environ={"GITHUB_STEP_SUMMARY": str(path)})
    assert path.stat().st_size <= 1024 * 1024
    assert "## kernelpin failed" in path.read_text(encoding="utf-8")


def test_annotations_come_back_on_github_alone(tmp_path):
    assert publish(SESSION, environ={}) == []
    assert len(publish(SESSION, environ={"GITHUB_ACTIONS": "true"})) == 2


def test_annotations_name_files_from_the_root_of_the_repository(tmp_path):
    rootdir = tmp_path / "packages" / "mine"
    rootdir.mkdir(parents=True)
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path)}
    lines = publish(Report(rows=(SLOWER,)), environ=environ, rootdir=rootdir)
    assert lines[0].startswith("::error file=packages/mine/perf_tests/test_timings.py,line=31,")
