"""The store against damage: hand edits, two writers, kills. Nothing accepted is lost."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from baseline_makers import (
    A100,
    H200,
    OTHER,
    TEST,
    around,
    counted,
    entries,
    figures,
    file_of,
    files,
    kernel_figures,
    measurement,
    proposal,
    samples,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from kernelpin.baselines import BaselineError, Store, accept, propose
from kernelpin.baselines import lock as lock_module
from kernelpin.baselines import store as store_module
from kernelpin.baselines.acceptance import read_proposed
from kernelpin.baselines.entry import spread_of
from kernelpin.baselines.text import encode, parse

SAMPLE = encode(
    file_of(
        {
            TEST: propose(
                None, measurement(samples(41.0, 41.2, kernels=kernel_figures(gemm=38.0)))
            ),
            OTHER: propose(None, measurement(counted(kernels=5))),
        }
    )
)


@pytest.fixture(scope="module", autouse=True)
def locks_of_their_own(tmp_path_factory):
    """Where a file system has no locks, one lies in the temporary folder for good."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("locks")))
        patch.setattr(tempfile, "tempdir", None)
        yield


def line_of(content, needle):
    """The number of the only line with this text."""
    (line,) = [n for n, line in enumerate(content.decode().splitlines(), 1) if needle in line]
    return line


def fail(content):
    with pytest.raises(BaselineError) as caught:
        parse(content, "baselines/x/test_y.json")
    error = caught.value
    assert str(error).startswith(f"baselines/x/test_y.json:{error.line}: ")
    return error


def edited(old, new):
    """The sample with one piece of text replaced, and the line of the edit."""
    before, found, _after = SAMPLE.partition(old.encode())
    assert found
    return SAMPLE.replace(old.encode(), new.encode(), 1), before.count(b"\n") + 1


# Files are costly to draw.
FEW = settings(max_examples=max(10, settings.default.max_examples // 4))


class TestRoundTrip:
    @FEW
    @given(files)
    def test_what_can_be_written_reads_back_equal(self, file):
        content = encode(file)
        assert parse(content, "x") == file
        assert encode(parse(content, "x")) == content

    @FEW
    @given(files)
    def test_the_text_has_sorted_keys_and_ends_in_one_newline(self, file):
        text = encode(file).decode()
        content = json.loads(text)
        assert list(content["entries"]) == sorted(content["entries"])
        assert all(list(entry) == sorted(entry) for entry in content["entries"].values())
        assert text.endswith("}\n")
        assert not any(line != line.rstrip(" ") for line in text.split("\n"))

    @FEW
    @given(entries(), st.permutations(range(3)))
    def test_the_text_does_not_depend_on_the_order_of_entries(self, entry, order):
        names = [f"test_{i}" for i in order]
        assert encode(file_of(dict.fromkeys(names, entry))) == encode(
            file_of(dict.fromkeys(sorted(names), entry))
        )

    @FEW
    @given(files, st.sampled_from([None, 0, 3, "\t"]), st.booleans(), st.booleans())
    def test_other_layouts_of_the_same_data_read_equal(self, file, indent, ascii_only, windows):
        content = json.loads(encode(file))
        text = json.dumps(content, indent=indent, ensure_ascii=ascii_only)
        if windows:
            text = "\ufeff" + text.replace("\n", "\r\n")
        assert parse(text.encode(), "x") == file

    def test_a_change_of_one_test_changes_its_lines_alone(self):
        before = SAMPLE.decode().splitlines()
        file = parse(SAMPLE, "x")
        new = propose(file.entries[TEST], measurement(samples(44.0, 44.2), date="2026-12-01"))
        after = encode(file_of({**file.entries, TEST: new})).decode().splitlines()
        changed = [a.strip() for a in after if a not in before]
        assert [line.split('"')[1] for line in changed] == [
            "median", "processes", "commit", "spread"
        ]  # fmt: skip

    @FEW
    @given(st.lists(figures, min_size=1, max_size=9), st.sampled_from([0.5, 1.001, -1]))
    def test_a_median_that_is_none_is_neither_read_nor_written(self, processes, factor):
        entry = propose(None, measurement(samples(*processes)))
        wrong = msgspec.structs.replace(entry, median=entry.median * factor)
        with pytest.raises(BaselineError, match=r"refusing to write .*test_time\[mlp\]: median: "):
            encode(file_of({TEST: wrong}))
        raw = json.loads(encode(file_of({TEST: entry})))
        raw["entries"][TEST]["median"] = wrong.median
        assert fail(json.dumps(raw).encode()).message.startswith(f"{TEST}: median: median")


class TestHandEdits:
    def test_that_hold_a_recording_twice_are_errors(self):
        """As a merge by hand leaves them: the same evidence would count twice."""
        raw = json.loads(SAMPLE)
        entry = raw["entries"][TEST]
        entry["recordings"] *= 2
        entry["processes"] *= 2
        entry["spread"] = spread_of(tuple(entry["processes"]))
        error = fail(json.dumps(raw).encode())
        assert "recording 2 is recording 1 once more" in error.message

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('"median": 41.1', '"median": 40.0', "median is 40.0, but that of its processes"),
            ('"median": 41.1', '"median": "41.1"', "expected `float`, got `str`"),
            ('"median": 41.1', '"medain": 41.1', "unknown field `medain`"),
            ('"median": 41.1', '"median": -41.1', "median: -41.1 is no positive, finite figure"),
            ('"median": 41.1', '"median": 1e999', "median: inf is no positive, finite figure"),
            ('"median": 41.1', '"median": NaN', "NaN is no figure"),
            ('"median": 41.1', f'"median": 1{"0" * 400}', "median"),
            ('"spread": 0.00344', '"spread": 0.1', "spread is 0.1, but that of its processes"),
            ("[41.0, 41.2]", "[41.0, 41.2, 41.1]", "3 process figures, but its recordings count 2"),
            ("[41.0, 41.2]", "[]", "needs the figures of its processes"),
            ('"date": "2026-11-30"', '"date": "30.11.2026"', "date '30.11.2026' is not YYYY-MM-DD"),
            ('"metric": "device_us"', '"metric": "device_ms"', "invalid enum value 'device_ms'"),
            ('"source": "measured"', '"source": "published"', "published entry needs cite and"),
            ('"kernels": 5', '"kernels": -5', "kernels is -5"),
            ('"kernels": 5', '"kernels": 5.5', "expected `int`, got `float`"),
            ('"2.11": {', '"2": {', "'2' is no torch minor version like 2.11"),
            ('"count": 1', '"count": 0', "a kernel that ran 0 times"),
            ('"schema": 1', '"schema": 2', "schema 2, and this kernelpin reads schema 1"),
            ('"schema": 1', '"schema": true', "schema True, and this kernelpin reads"),
            ('"schema": 1', '"extra": 1, "schema": 1', "unknown key 'extra'"),
            ('"name": "NVIDIA H200"', '"name": " "', "device name is empty"),
            ('"name": "NVIDIA H200"', '"name": null', "expected `str`, got `null`"),
            ('"input": "bf16[64,32]"', r'"input": "\ud800"', "text that is no Unicode"),
        ],
    )
    def test_that_make_no_sense_are_errors_with_their_line(self, old, new, message):
        content, line = edited(old, new)
        error = fail(content)
        assert message in error.message
        # Where an entry as a whole is at fault, that is the line of its test; an unencodable
        # character is found in no place.
        entry_lines = {line_of(SAMPLE, TEST), line_of(SAMPLE, OTHER), 1}
        assert error.line == line or (
            error.line in entry_lines and ("cite" in message or "Unicode" in message)
        )

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("[41.0, 41.2]", "[41, 41.20]"),
            ('"median": 41.1', '"median": 4.11e1'),
            ('"spread": 0.00344', '"spread": 0.003441'),
            ('"schema": 1\n', '"schema": 1'),
        ],
    )
    def test_that_keep_the_figures_are_taken(self, old, new):
        content, _ = edited(old, new)
        was, now = parse(SAMPLE, "x"), parse(content, "x")
        assert now.entries[TEST].processes == was.entries[TEST].processes
        assert now.entries[TEST].median == was.entries[TEST].median

    def test_may_set_a_limit_and_a_note(self):
        content, _ = edited('"median": 41.1', '"limit": 0.03, "note": "tight", "median": 41.1')
        entry = parse(content, "x").entries[TEST]
        assert (entry.limit, entry.note) == (0.03, "tight")

    @pytest.mark.parametrize(
        ("old", "again"),
        [
            ('      "median": 41.1,\n', '      "median": 39.0,\n'),
            ('      "source": "measured"\n', '      "source": "measured",\n'),
            ('          "kernels": 5\n', '          "kernels": 4,\n'),
            ('  "schema": 1\n', '  "schema": 1,\n'),
        ],
    )
    def test_that_write_a_key_twice_are_errors_that_name_both_lines(self, old, again):
        content, line = edited(old, again + old)
        key = again.split('"')[1]
        error = fail(content)
        assert error.message == (
            f"key {key!r} stands here again: it is on line {line} too; keep one"
        )
        assert error.line == line + 1

    def test_that_name_a_test_twice_are_an_error(self):
        content = SAMPLE.replace(OTHER.encode(), TEST.encode())
        error = fail(content)
        assert error.line == line_of(SAMPLE, TEST)
        assert f"it is on line {line_of(SAMPLE, OTHER)} too" in error.message

    @pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "=======", ">>>>>>> 3f9c1ab", "||||||| a"])
    def test_with_a_merge_conflict_left_in_are_an_error_at_the_marker(self, marker):
        content, line = edited('      "median": 41.1,\n', f'{marker}\n      "median": 41.1,\n')
        error = fail(content)
        assert error.line == line
        assert error.message.startswith(f"merge conflict marker {marker[:7]}: keep one side")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "file is empty"),
            (b" \n\n", "file is empty"),
            (b"[]", "holds a list, not an object"),
            (b"{}", "no schema, and this kernelpin reads schema 1"),
            (b'{"schema": 1}', "device: expected `object`, got `null`"),
            (b'{"schema": 1, "device": {"name": "x"}}', "entries: expected an object, found"),
            (b'{"schema": 1,\n "device": {"name": "\xff"}}', "byte 0xff at offset 35 is no UTF-8"),
            (b"[" * 100_000, "no baseline file: "),
            (b'{"schema": ' + b"1" * 5000 + b"}", "no baseline file: "),
        ],
    )
    def test_that_leave_no_baseline_file_are_errors(self, content, message):
        assert message in fail(content).message

    @given(st.integers(1, len(SAMPLE) - 2))
    def test_that_cut_the_file_short_are_errors_on_the_last_line(self, length):
        content = SAMPLE[:length]
        error = fail(content)
        assert error.line <= content.count(b"\n") + 1
        if content.rstrip()[-1:] in b"{[,:":
            assert error.message.startswith("file ends early")
            assert error.line >= content.rstrip().count(b"\n") + 1
        if content.count(b'"') % 2:
            assert error.message.startswith("file ends early: Unterminated string")

    @settings(suppress_health_check=[HealthCheck.filter_too_much])
    @given(st.data())
    def test_of_any_kind_give_data_or_a_clear_error(self, data):
        content = bytearray(SAMPLE)
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content) - 1))
            size = data.draw(st.integers(0, 30))
            pieces = (b"", b"0", b'"', b"}", b"\n", b"{", b"null", b"-", b"\\", b'"x": 1,', b"\xff")
            content[at : at + size] = data.draw(st.sampled_from(pieces) | st.binary(max_size=3))
        file = error = None
        try:
            file = parse(bytes(content), "x")
        except BaselineError as caught:
            error = caught
        if file is None:
            assert 1 <= error.line <= content.count(b"\n") + 1
        else:
            assert parse(encode(file), "x") == file


class Killed(BaseException):
    """What a process that is killed between write and rename does not get to handle."""


def killed_before_rename(store, action, at):
    """Run `action`, which dies at its rename number `at` (0 the first); whether it died."""
    real = Path.replace
    renames = iter(range(1000))

    def replace_or_die(self, target):
        if next(renames) == at:
            raise Killed
        return real(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", replace_or_die)
        try:
            action()
        except Killed:
            return True
    return False


GPUS = (H200, A100)
TESTS = (TEST, OTHER, "perf_tests/test_else.py::test_x", "perf_tests/sub/test_timings.py::test_x")


class TheStore(RuleBasedStateMachine):
    """Record, accept, prune, overtake and kill, against a dict of what must be there.

    The model knows for each GPU and test the figures of each recording, in order.
    """

    proposed = Bundle("proposed")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kernelpin-"))
        self.stores = [Store(self.folder / "baselines") for _ in range(2)]
        self.model = {}
        self.days = iter(range(10_000))

    def teardown(self):
        shutil.rmtree(self.folder)

    @initialize()
    def start_empty(self):
        assert self.stores[0].gpus() == ()

    @rule(
        target=proposed,
        writer=st.integers(0, 1),
        gpu=st.sampled_from(GPUS),
        tests=st.sets(st.sampled_from(TESTS), min_size=1, max_size=3),
        center=st.floats(1, 1000),
        processes=st.sampled_from([3, 8, 9]),
        mode=st.sampled_from(["replace", "add"]),
        verdict=st.sampled_from(["SLOWER", "SLOWER", "FASTER", "UNCLEAR"]),
    )
    def record(self, writer, gpu, tests, center, processes, mode, verdict):
        day = next(self.days)
        date = f"{2000 + day // 300:04}-{day % 300 // 28 + 1:02}-{day % 28 + 1:02}"
        # No two sessions measure the very same figures; the model tells recordings apart by them.
        figures = tuple(float(f"{f:.6g}") for f in around(center + 1000 * day, processes))
        proposals = [
            proposal(samples(*figures), verdict, mode, test_id=test, gpu=gpu, date=date)
            for test in sorted(tests)
        ]
        # As files: what is accepted was written by another machine, perhaps some time ago.
        place = self.folder / f"proposed-{day}"
        self.stores[writer].write_proposed(place, proposals)
        seen = {test: self.model.get((gpu.slug, test)) for test in tests}
        return place, gpu, figures, mode, verdict, seen

    @rule(writer=st.integers(0, 1), what=proposed)
    def accept(self, writer, what):
        self._accept(writer, what)

    @rule(
        gpu=st.sampled_from(GPUS),
        test=st.sampled_from(TESTS),
        modes=st.tuples(*[st.sampled_from(["replace", "add"])] * 2),
        order=st.permutations([0, 1]),
    )
    def cross(self, gpu, test, modes, order):
        """Both propose for one test before either is accepted."""
        made = [self.record(i, gpu, {test}, 50.0 + i, 8, modes[i], "SLOWER") for i in (0, 1)]
        for i in order:
            self._accept(i, made[i])

    @rule(writer=st.integers(0, 1), what=consumes(proposed), at=st.integers(0, 2))
    def accept_and_be_killed(self, writer, what, at):
        before = dict(self.model)
        killed = killed_before_rename(self.stores[writer], lambda: self._accept(writer, what), at)
        if killed:
            # Each file is as it was or as it was to be; the rest comes with the next try.
            self.model = before
            for key, expected in self._expected(what).items():
                stored = self._stored().get(key)
                assert stored in (before.get(key), expected)
                if stored is not None:
                    self.model[key] = stored

    def _accept(self, writer, what):
        place = what[0]
        expected = self._expected(what)
        self.model.update(expected)
        done = accept(self.stores[writer], read_proposed(place), reason="asked for")
        changed = {(c.slug, c.test_id) for c in done.changes}
        assert changed == expected.keys()

    def _expected(self, what):
        """What accepting this must change, by the rules a reader of the docs knows."""
        _place, gpu, figures, mode, verdict, seen = what
        changes = {}
        for test, was in seen.items():
            now = self.model.get((gpu.slug, test))
            if now is not None and figures in now:
                continue  # in already
            if mode == "replace" and now != was:
                continue  # overtaken
            new = (figures,) if mode == "replace" or now is None else (*now, figures)
            if verdict == "UNCLEAR" or sum(map(len, new)) < 8:
                continue
            changes[gpu.slug, test] = new
        return changes

    @rule(writer=st.integers(0, 1), gpu=st.sampled_from(GPUS), keep=st.sets(st.sampled_from(TESTS)))
    def prune(self, writer, gpu, keep):
        store = self.stores[writer]
        stored = store.entries(gpu.slug)
        assert set(stored) == {t for slug, t in self.model if slug == gpu.slug}
        orphans = tuple(test for test in stored if test not in keep)
        assert store.remove(gpu.slug, orphans) == orphans
        for test in orphans:
            del self.model[gpu.slug, test]

    @rule()
    def be_killed_while_pruning(self):
        slug = H200.slug
        before = dict(self.model)
        killed_before_rename(self.stores[0], lambda: self.stores[0].remove(slug, TESTS[:1]), 0)
        stored = self._stored()
        assert {k: v for k, v in before.items() if k != (slug, TESTS[0])} == {
            k: v for k, v in stored.items() if k != (slug, TESTS[0])
        }
        self.model = stored

    def _stored(self, store=None):
        store = store or Store(self.stores[0].folder)
        return {
            (slug, test): tuple(own for _, own in entry.by_recording())
            for slug in store.gpus()
            for test, entry in store.entries(slug).items()
        }

    @invariant()
    def everything_accepted_is_there_and_nothing_else(self):
        assert self._stored() == self.model
        for store in self.stores:  # their caches see what the other wrote
            assert self._stored(store) == self.model

    @invariant()
    def files_are_canonical_and_whole(self):
        for path in self.stores[0].folder.glob("*/*.json"):
            content = path.read_bytes()
            assert encode(parse(content, str(path))) == content

    @invariant()
    def at_most_one_draft_lies_about(self):
        assert len(list(self.stores[0].folder.glob("*/.*"))) <= 5


TestTheStore = TheStore.TestCase
TestTheStore.settings = settings(FEW, stateful_step_count=15)


class TestWriters:
    def test_a_killed_process_leaves_the_old_file_and_a_later_one_clears_its_draft(self, tmp_path):
        store = Store(tmp_path / "baselines")
        accept(store, store.proposed([proposal(samples(*around(40.0)))]).values())
        path = store.file_for(H200.slug, TEST)
        before = path.read_bytes()
        code = textwrap.dedent(
            """
            import os, signal, sys
            from pathlib import Path
            from kernelpin.baselines.store import Store, replace_file
            Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            store = Store(sys.argv[1])
            with store.locked():
                replace_file(Path(sys.argv[2]), b"half")
            """
        )
        done = subprocess.run([sys.executable, "-c", code, store.folder, path], check=False)
        assert done.returncode == -signal.SIGKILL
        assert path.read_bytes() == before
        (draft,) = path.parent.glob(".*.tmp")
        os.utime(draft, (time.time() - 4000, time.time() - 4000))
        # The dead process's lock is gone with it.
        done = accept(
            store, store.proposed([proposal(samples(*around(7.0)), test_id=OTHER)]).values()
        )
        assert done.written
        assert list(path.parent.glob(".*.tmp")) == []
        assert set(store.entries(H200.slug)) == {TEST, OTHER}

    def test_a_full_disk_leaves_the_old_file_no_draft_and_a_message_with_its_name(
        self, tmp_path, monkeypatch
    ):
        path = tmp_path / "test_x.json"
        path.write_bytes(b"old")

        def full(_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*test_x\.json'"):
            store_module.replace_file(path, b"new")
        assert [p.name for p in tmp_path.iterdir()] == ["test_x.json"]
        assert path.read_bytes() == b"old"

    @pytest.mark.parametrize("how", ["one folder", "a link"])
    def test_two_processes_accepting_at_once_lose_nothing(self, tmp_path, how):
        """Whatever their TMPDIR is, and by whichever way they come to a GPU's folder."""
        folder = tmp_path / "baselines"
        code = textwrap.dedent(
            """
            import sys
            from pathlib import Path
            from kernelpin.baselines import Store, accept
            from kernelpin.baselines.acceptance import read_proposed
            store = Store(sys.argv[1])
            for place in sys.argv[2:]:
                assert accept(store, read_proposed(Path(place))).written, place
            """
        )
        tests = [f"perf_tests/test_timings.py::test_{i}" for i in range(12)]
        places = []
        for test in tests:
            place = tmp_path / test[-2:].strip("_")
            Store(folder).write_proposed(place, [proposal(samples(*around(40.0)), test_id=test)])
            places.append(place)
        writers = []
        for i in (0, 1):
            own = tmp_path / f"tmp{i}"
            own.mkdir()
            seen_as = folder
            if how == "a link":
                seen_as = tmp_path / f"project{i}"
                seen_as.mkdir()
                (folder / H200.slug).mkdir(parents=True, exist_ok=True)
                (seen_as / H200.slug).symlink_to(folder / H200.slug)
            command = [sys.executable, "-c", code, seen_as, *places[i::2]]
            writers.append(subprocess.Popen(command, env={**os.environ, "TMPDIR": str(own)}))
        assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
        assert set(Store(folder).entries(H200.slug)) == set(tests)

    def test_a_reader_never_sees_half_a_file(self, tmp_path):
        store = Store(tmp_path / "baselines")
        accept(store, store.proposed([proposal(samples(*around(40.0)))]).values())
        path = store.file_for(H200.slug, TEST)
        file = store.read(path)
        stop = threading.Event()

        def write():
            while not stop.is_set():
                store.write(path, file)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                assert Store(store.folder).read(path) == file
        finally:
            stop.set()
            writer.join()

    def test_the_draft_of_another_writer_is_left_alone(self, tmp_path):
        path = tmp_path / "test_x.json"
        foreign = tmp_path / f".test_x.json.{os.getpid()}.tmp"
        foreign.write_bytes(b"half")
        store_module.replace_file(path, b"new")
        assert foreign.read_bytes() == b"half"
        assert path.read_bytes() == b"new"

    @pytest.fixture(params=["folder", "file", "temporary file"])
    def lockable(self, request, monkeypatch):
        """What a file system lets one lock: a folder, what is open for writing alone, nothing."""
        real = fcntl.flock

        def flock(descriptor, operation):
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if request.param == "temporary file" or (request.param == "file" and not is_file):
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            real(descriptor, operation)

        monkeypatch.setattr(lock_module, "fcntl", SimpleNamespace(**vars(fcntl) | {"flock": flock}))
        return request.param

    def test_a_lock_leaves_nothing_and_makes_no_folder_for_good(self, tmp_path, lockable):
        store = Store(tmp_path / "not" / "here")
        with store.locked():
            assert store.folder.is_dir()
        if lockable != "temporary file":  # that one lies where no one can tell who waits for it
            assert list(tmp_path.iterdir()) == []
            (tmp_path / "not").mkdir()
        with store.locked():
            (store.folder / "x").touch()
        assert [path.name for path in store.folder.iterdir()] == ["x"]

    def test_a_lock_is_that_of_the_folder_there_is_now(self, tmp_path, monkeypatch):
        """Whoever had the lock before may have removed the folder, and another made it again."""
        store = Store(tmp_path / "gone")
        store.folder.mkdir()
        monkeypatch.setattr(store_module, "LOCK_SECONDS", 0.1)
        taken = []

        def flock(descriptor, operation):
            if not taken:
                store.folder.rename(tmp_path / "old")
                store.folder.mkdir()
            taken.append(descriptor)
            fcntl.flock(descriptor, operation)

        with monkeypatch.context() as patch:
            patch.setattr(lock_module, "fcntl", SimpleNamespace(**vars(fcntl) | {"flock": flock}))
            held = store.locked()
            held.__enter__()
        with pytest.raises(BaselineError, match="another process"), Store(store.folder).locked():
            pass
        held.__exit__(None, None, None)

    def test_a_lock_is_held_by_one_at_a_time(self, tmp_path, lockable):
        """In a folder that goes whenever nobody has it, too."""
        counter = tmp_path / "counter"
        counter.write_text("0")
        failed = []

        def count():
            try:
                for _ in range(10):
                    with Store(tmp_path / "gone").locked():
                        found = int(counter.read_text())
                        time.sleep(0.001)
                        counter.write_text(str(found + 1))
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=count) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (counter.read_text(), failed) == ("30", [])

    def test_a_writer_that_waits_too_long_says_for_what(self, tmp_path, monkeypatch, lockable):
        monkeypatch.setattr(store_module, "LOCK_SECONDS", 0.1)
        one, two = Store(tmp_path), Store(tmp_path)
        failed = []

        def try_to_change():
            try:
                with two.locked():
                    pass
            except BaselineError as error:
                failed.append(str(error))

        with one.locked():
            thread = threading.Thread(target=try_to_change)
            thread.start()
            thread.join()
        assert "another process has been changing it for 0 s (lock " in failed[0]
        assert str(tmp_path) in failed[0]

    @pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read anything")
    def test_a_file_that_may_not_be_read_is_named(self, tmp_path):
        store = Store(tmp_path / "baselines")
        accept(store, store.proposed([proposal(samples(*around(40.0)))]).values())
        path = store.file_for(H200.slug, TEST)
        path.chmod(0)
        with pytest.raises(BaselineError, match=r"test_timings\.json: cannot be read: Permission"):
            Store(store.folder).read(path)


class TestLinks:
    @pytest.fixture(params=["file", "gpu", "folder"])
    def linked(self, request, tmp_path):
        """A store of one entry that is elsewhere: the link, what it leads to, the real file."""
        store = Store(tmp_path / "baselines")
        accept(store, store.proposed([proposal(samples(*around(40.0)))]).values())
        path = store.file_for(H200.slug, TEST)
        link = {"file": path, "gpu": path.parent, "folder": store.folder}[request.param]
        target = tmp_path / "shared"
        link.rename(target)
        link.symlink_to(target)
        return store, link, target, Path(os.path.realpath(path))

    def test_are_written_through(self, linked):
        store, link, target, real = linked
        faster = store.proposed([proposal(samples(*around(30.0)), verdict="FASTER")])
        assert accept(store, faster.values()).written
        assert link.is_symlink()
        assert parse(real.read_bytes(), "x").entries[TEST].median == pytest.approx(30.0)
        assert list(target.parent.glob("**/.*.tmp")) == []

    def test_keep_the_others_when_entries_are_removed(self, linked):
        store, link, _, real = linked
        more = store.proposed([proposal(samples(*around(7.0)), test_id=OTHER)])
        accept(store, more.values())
        assert store.remove(H200.slug, [TEST]) == (TEST,)
        assert link.is_symlink()
        assert list(parse(real.read_bytes(), "x").entries) == [OTHER]

    def test_into_nowhere_are_no_missing_baselines(self, linked):
        store, link, target, _ = linked
        proposed = store.proposed([proposal(samples(*around(30.0)))])
        target.rename(target.with_name("away"))
        told = f"{link}: is a link to {target}, which is not here: fetch that"
        for action in (
            lambda: store.lookup(H200, TEST, "device_us"),
            lambda: accept(store, proposed.values()),
            lambda: store.proposed([proposal(samples(*around(30.0)))]),
        ):
            with pytest.raises(BaselineError) as caught:
                action()
            assert str(caught.value).startswith(told)
        assert link.is_symlink()
        assert not target.exists()


def test_many_entries_are_read_and_looked_up_quickly(tmp_path):
    store = Store(tmp_path / "baselines")
    generator = random.Random(0)
    tests = [f"perf_tests/test_timings.py::test_{i}" for i in range(200)]
    given = [
        proposal(samples(*around(generator.uniform(1, 999), 12)), test_id=test) for test in tests
    ]
    accept(store, store.proposed(given).values())
    start = time.process_time()
    for test in tests:
        assert store.lookup(replace(H200, uuid="GPU-9"), test, "device_us").processes
    assert time.process_time() - start < 1.5
