"""How the stopwatch times on CUDA, on a simulated GPU: graphs, events, and what it notices."""

from __future__ import annotations

import inspect

import pytest
from simulated_cuda import GAP_US, SimulatedCuda

from kernelpin.machine import State
from kernelpin.stopwatch import MeasureError, Stopwatch, cuda, events, graphs
from kernelpin.stopwatch.events import Feed, find_feed

torch = pytest.importorskip("torch")


@pytest.fixture
def gpu(monkeypatch):
    sim = SimulatedCuda()
    namespace = sim.namespace()
    for name, value in vars(namespace).items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(
        torch._C,
        "_cuda_endAllocateToPool",
        lambda device, pool: sim.pools_ended.append(pool),
        raising=False,
    )
    monkeypatch.setattr(cuda.machine, "observe", lambda own: State(sm_clock_mhz=1980))
    monkeypatch.setattr(cuda.CudaBench, "now", lambda bench: sim.host_us / 1e6)

    def pause(bench, seconds):
        sim.synchronize()
        sim.host_us += seconds * 1e6

    monkeypatch.setattr(cuda.CudaBench, "pause", pause)
    monkeypatch.setattr(cuda.CudaBench, "flush", lambda bench: sim.kernel(30.0))
    monkeypatch.setattr(events.time, "perf_counter", lambda: sim.host_us / 1e6)
    # a failed capture is healed by a small one
    monkeypatch.setattr(torch, "zeros", lambda *a, device: sim.kernel(1.0))
    monkeypatch.setattr(torch, "empty", lambda size, *, dtype, device: sim.allocate(size))
    graphs._broken.clear()
    return sim


def stopwatch(**options):
    return Stopwatch(bench=cuda.CudaBench(), **options)


@pytest.mark.parametrize("us", [1.3, 30.0, 176.0, 4000.0])
def test_a_kernels_time_is_found_with_the_gap_of_its_graph_node(gpu, us):
    samples = stopwatch()(lambda: gpu.kernel(us))
    assert samples.method == "graph"
    assert samples.figure == pytest.approx(us + GAP_US, rel=0.002)
    assert (samples.metric, samples.unit, samples.l2) == ("device_us", "µs", "hot")
    assert len(samples.values) == 40
    assert samples.reason is None
    assert samples.note is None


def test_a_sample_holds_at_least_2_5_ms_of_gpu_work_and_hardly_more(gpu):
    samples = stopwatch()(lambda: gpu.kernel(10.0))
    assert 2500 <= samples.calls_per_sample * (10.0 + GAP_US) <= 2800


@pytest.mark.parametrize("l2", ["hot", "cold"])
def test_every_graph_and_its_memory_is_given_back(gpu, l2):
    stopwatch()(lambda: gpu.kernel(10.0), l2=l2)
    assert gpu.graphs_held == 0


def test_each_block_has_a_layout_of_memory_of_its_own(gpu):
    """Pads of 10 MB or more and of 1 MB, those of one block alone: memory is not used up."""
    layouts, captured_at = [], []
    for _ in range(3):  # processes
        gpu.pads.clear()
        stopwatch()(lambda: captured_at.append(gpu.allocated) or gpu.kernel(30.0))
        layouts.append(list(gpu.pads))
    large = [[pad for pad in layout if pad > 1 << 20] for layout in layouts]
    assert all(len(pads) >= 8 for pads in large)
    assert all(len(set(pads[-8:])) > 3 for pads in large)
    assert large[0] != large[1] != large[2]
    assert all(10 << 20 <= pad <= 72 << 20 and pad % (2 << 20) == 0 for p in large for pad in p)
    assert {pad for layout in layouts for pad in layout if pad < 10 << 20} == {1 << 20}
    assert len({at % (2 << 20) for at in captured_at}) == 2  # an even and an odd number of small
    assert max(captured_at) <= 104 << 20


def test_the_first_figure_of_a_process_is_like_its_later_ones(gpu):
    """Nodes of a graph follow each other faster until other streams have launched too."""
    watch = stopwatch()
    first = watch(lambda: gpu.kernel(1.3)).figure
    for _ in range(100):
        gpu.kernel(1.0)  # on the default stream
    assert watch(lambda: gpu.kernel(1.3)).figure == pytest.approx(first, rel=1e-3)
    assert first == pytest.approx(1.3 + GAP_US, rel=0.01)
    gpu.launched_on_default = 0  # as if it had gone back
    assert watch(lambda: gpu.kernel(1.3)).figure == pytest.approx(first, rel=1e-3)


def test_each_capture_comes_after_launches_elsewhere(gpu):
    before = []

    def call():
        if gpu.captured == []:
            before.append(gpu.launched_on_default)
            gpu.launched_on_default = 0
        gpu.kernel(1.3)

    stopwatch()(call)
    assert len(before) >= 10
    assert min(before) >= 8


def test_what_is_timed_by_events_comes_after_launches_elsewhere_too(gpu):
    own = torch.cuda.CUDAGraph()
    with torch.cuda.graph(own, stream=object()):
        gpu.kernel(1.3)
    assert stopwatch()(own.replay).figure == pytest.approx(1.3 + 2 * GAP_US, rel=0.05)


@pytest.mark.parametrize("memory", [10, 100, 110, 150, 350, 420, 450, 700])
def test_pads_leave_the_callable_its_room(gpu, memory):
    """A callable of up to 100 MB, on a GPU that it fills, that has little room, or enough.

    Whether there is room is no matter of which pads are drawn: like processes measure alike.
    """
    needed = min(memory, 100) << 20
    gpu.memory = memory << 20

    def call():
        held = gpu.scratch(needed)
        gpu.kernel(30.0)
        del held

    samples = stopwatch()(call)
    assert samples.method == "graph"
    assert samples.figure == pytest.approx(30.0 + GAP_US, rel=0.002)
    moved = memory == 700
    assert bool(gpu.pads) == bool(samples.places) == moved
    assert samples.note == (
        None if moved else "not measured at several places in memory: the GPU's memory has no room"
    )
    assert gpu.graphs_held == gpu.allocated == 0


def test_a_cold_caches_buffer_is_no_memory_of_the_callable(gpu, monkeypatch):
    """With room for the pads and what the callable takes, but not for the buffer twice."""
    gpu.memory = 700 << 20
    held = []

    def flush(bench):
        if not held:
            assert gpu.captured is None, "it would belong to the graph"
            held.append(gpu.scratch(200 << 20))
        gpu.kernel(30.0)

    monkeypatch.setattr(cuda.CudaBench, "flush", flush)
    samples = stopwatch()(lambda: gpu.kernel(3000.0), l2="cold")
    assert len(samples.places) == 8
    assert samples.note is None


def test_a_capture_that_fails_for_a_reason_of_its_own_is_told_by_it(gpu):
    captures = []

    def call():
        if gpu.captured == []:
            captures.append(None)
            if len(captures) == 8:
                raise RuntimeError("my cache is full\nand so on")
        gpu.kernel(30.0)

    assert stopwatch()(call).note == "not measured at several places in memory: my cache is full"


def is_beside(graph):
    """Whether a capture is one of those that lie beside the next."""
    return bool(graph.nodes) and max(graph.nodes) < 0.01


def test_beside_each_capture_lie_one_to_three_graphs_of_many_sizes(gpu, monkeypatch):
    end = torch.cuda.CUDAGraph.capture_end
    beside, seen = [], []

    def capture_end(graph):
        end(graph)
        if is_beside(graph):
            beside.append(len(graph.nodes))
        else:
            seen.append(tuple(beside))
            beside.clear()

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_end", capture_end)
    bench = cuda.CudaBench()
    bench.layout._random.seed(1)
    Stopwatch(bench=bench)(lambda: gpu.kernel(30.0))
    moved = [sizes for sizes in seen if sizes]
    assert len(moved) == 8
    assert {len(sizes) for sizes in moved} == {1, 2, 3}
    sizes = [size for sizes in moved for size in sizes]
    assert 50 <= min(sizes) < 1000 < 2000 < max(sizes) <= 3000
    assert set(gpu.capture_modes) == {"thread_local"}


def test_a_graph_beside_it_that_finds_no_room_is_no_failure(gpu, monkeypatch):
    end = torch.cuda.CUDAGraph.capture_end
    beside = []

    def capture_end(graph):
        end(graph)
        if is_beside(graph):
            beside.append(graph)
            if len(beside) == 4:
                raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_end", capture_end)
    samples = stopwatch()(lambda: gpu.kernel(30.0))
    assert samples.figure == pytest.approx(30.0 + GAP_US, rel=0.002)
    assert "no room" in samples.note
    assert gpu.graphs_held == gpu.allocated == 0


def test_a_time_limit_that_strikes_between_pads_leaves_the_next_test_its_gpu(gpu, monkeypatch):
    sleep = torch.cuda._sleep
    slept = []

    def interrupted(cycles):
        if gpu.captured is not None:
            slept.append(cycles)
            if len(slept) == 500:
                pytest.fail("Timeout >60.0s")
        sleep(cycles)

    monkeypatch.setattr(torch.cuda, "_sleep", interrupted)
    watch = stopwatch()
    with pytest.raises(pytest.fail.Exception, match="Timeout"):
        watch(lambda: gpu.kernel(30.0))
    assert gpu.captured is None
    assert gpu.stream is gpu.default_stream
    assert gpu.graphs_held == gpu.allocated == 0
    assert watch(lambda: gpu.kernel(30.0)).figure == pytest.approx(30.0 + GAP_US, rel=0.002)


def test_pads_that_do_not_fit_after_all_are_given_back(gpu, monkeypatch):
    """Another process may take the memory that was free a moment ago."""
    taken = []

    def empty(size, *, dtype, device):
        taken.append(gpu.allocated)
        if len(taken) % 3 == 0:
            raise torch.cuda.OutOfMemoryError
        return gpu.allocate(size)

    monkeypatch.setattr(torch, "empty", empty)
    captured_at = []
    bench = cuda.CudaBench()
    bench.layout._random.seed(1)  # more than three pads
    watch = Stopwatch(bench=bench)
    samples = watch(lambda: captured_at.append(gpu.allocated) or gpu.kernel(30.0))
    assert len(taken) == 3
    assert max(taken) > 0
    assert max(captured_at) == 0
    assert "no room" in samples.note
    assert samples.figure == pytest.approx(30.0 + GAP_US, rel=0.002)


def test_what_was_measured_before_leaves_all_memory_to_the_next(gpu):
    gpu.memory = 700 << 20
    watch = stopwatch()
    watch(lambda: gpu.kernel(30.0))
    assert gpu.pads
    assert gpu.allocated == gpu.cached == 0
    samples = watch(lambda: gpu.scratch(690 << 20) and gpu.kernel(30.0))
    assert samples.method == "graph"


@pytest.mark.parametrize("fails", [1, 2])
def test_a_capture_that_fails_later_is_tried_without_pads_and_then_told(gpu, fails):
    captures = []

    def call():
        if gpu.captured == []:
            captures.append(gpu.allocated)
            if 8 <= len(captures) < 8 + fails:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 MiB")
        gpu.kernel(30.0)

    if fails == 1:
        samples = stopwatch()(call)
        assert samples.figure == pytest.approx(30.0 + GAP_US, rel=0.002)
        assert captures[8] == 0  # no pads
        assert samples.note == "not measured at several places in memory: CUDA out of memory."
    else:
        with pytest.raises(MeasureError, match=r"held one call, and does not hold .*out of memory"):
            stopwatch()(call)
    assert gpu.allocated == 0


def test_what_is_timed_by_events_lies_where_it_lies_a_launch_queue_a_sample(gpu):
    own = torch.cuda.CUDAGraph()
    with torch.cuda.graph(own, stream=object()):
        gpu.kernel(2.0)
    samples = stopwatch()(own.replay)
    assert (samples.method, samples.places, samples.calls_per_sample) == ("events", (), 64)
    assert len(samples.values) == 40


def test_a_figure_does_not_hang_on_where_the_process_has_its_graphs(gpu):
    """At one place the two processes would be 4 % apart."""
    gpu.gap_by_place_us = 0.1
    figures = []
    for gpu.nodes_held in (0, 96):
        bench = cuda.CudaBench()
        bench.layout._random.seed(gpu.nodes_held)
        samples = Stopwatch(bench=bench)(lambda: gpu.kernel(2.0))
        assert len(samples.places) == 24
        figures.append(samples.figure)
    assert figures[0] == pytest.approx(figures[1], rel=0.01)


def test_warm_up_and_capture_run_on_one_stream_that_is_not_the_default(gpu):
    stopwatch()(lambda: gpu.kernel(10.0))
    assert len(set(gpu.streams_launched_on)) == 1
    assert gpu.default_stream not in gpu.streams_launched_on
    assert gpu.stream is gpu.default_stream


def test_the_host_launching_slowly_does_not_show(gpu):
    def slow_to_launch():
        gpu.host_us += 400.0
        gpu.kernel(100.0)

    assert stopwatch()(slow_to_launch).figure == pytest.approx(100.0 + GAP_US, rel=0.002)


def test_a_graph_that_takes_long_to_launch_gets_a_longer_spin(gpu, monkeypatch):
    monkeypatch.setattr("simulated_cuda.GRAPH_LAUNCH_US", 2_000.0)
    assert stopwatch()(lambda: gpu.kernel(100.0)).figure == pytest.approx(100.5, rel=0.002)


def test_a_callable_that_replays_graphs_itself_is_timed_by_events(gpu):
    own = torch.cuda.CUDAGraph()
    with torch.cuda.graph(own, stream=object()):
        gpu.kernel(50.0)

    def call():
        gpu.kernel(17.0)
        own.replay()

    samples = stopwatch()(call)
    assert samples.method == "events"
    assert samples.note == "the callable replays CUDA graphs of its own"
    assert samples.figure == pytest.approx(67.0 + 3 * GAP_US, rel=0.01)


def test_a_graphs_bound_replay_is_seen_too(gpu):
    own = torch.cuda.CUDAGraph()
    with torch.cuda.graph(own, stream=object()):
        gpu.kernel(50.0)
    assert stopwatch()(own.replay).method == "events"


def test_looking_for_replays_leaves_torch_as_it_was(gpu):
    before = torch.cuda.CUDAGraph.replay
    stopwatch()(lambda: gpu.kernel(10.0))
    assert torch.cuda.CUDAGraph.replay is before


def test_events_do_not_show_the_host_where_it_is_slower_than_the_gpu(gpu):
    own = torch.cuda.CUDAGraph()
    with torch.cuda.graph(own, stream=object()):
        gpu.kernel(10.0)

    def call():
        gpu.host_us += 100.0
        own.replay()

    samples = stopwatch()(call)
    assert samples.method == "events"
    assert samples.figure == pytest.approx(10.0 + 2 * GAP_US, rel=0.06)


def test_a_full_launch_queue_is_met_with_fewer_calls(gpu):
    gpu.queue_limit = 100
    own = torch.cuda.CUDAGraph()
    with torch.cuda.graph(own, stream=object()):
        gpu.kernel(2.0)

    def call():
        gpu.host_us += 50.0
        for _ in range(9):
            gpu.kernel(2.0)
        own.replay()

    assert stopwatch()(call).figure == pytest.approx(10 * (2.0 + GAP_US), rel=0.06)


def test_a_callable_that_waits_for_the_gpu_is_timed_by_events_and_says_so(gpu):
    def call():
        gpu.kernel(100.0)
        gpu.wait()

    samples = stopwatch()(call)
    assert samples.method == "events"
    assert samples.note == ("the callable waits for the GPU: called a synchronizing CUDA operation")
    assert samples.figure > 100.0
    assert gpu.sync_debug_mode == 0


def test_a_capture_that_breaks_is_cleaned_up_and_events_take_over(gpu):
    def call():
        gpu.kernel(100.0)
        if gpu.captured is not None:
            gpu.broken = True
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nx")

    samples = stopwatch()(call)
    assert samples.method == "events"
    assert samples.note == (
        "no CUDA graph can hold the callable: "
        "CUDA error: operation not permitted when stream is capturing"
    )
    assert samples.figure == pytest.approx(100.0 + GAP_US, rel=0.01)
    assert gpu.stream is gpu.default_stream
    assert gpu.pools_ended == [(0, 1)]


def test_a_callable_that_launches_nothing_is_an_error(gpu):
    with pytest.raises(MeasureError, match="launches nothing on the GPU"):
        stopwatch()(lambda: None)


def test_an_error_of_the_callable_surfaces_as_itself(gpu):
    def call():
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        stopwatch()(call)
    assert gpu.stream is gpu.default_stream


def test_a_cold_cache_leaves_the_flush_out(gpu):
    samples = stopwatch()(lambda: gpu.kernel(10.0), l2="cold")
    assert samples.l2 == "cold"
    assert samples.figure == pytest.approx(10.0 + GAP_US, rel=0.01)
    assert samples.calls_per_sample < 100  # the flushes count as work of the sample


def test_a_cold_cache_works_with_events_too(gpu):
    own = torch.cuda.CUDAGraph()
    with torch.cuda.graph(own, stream=object()):
        gpu.kernel(50.0)
    samples = stopwatch()(own.replay, l2="cold")
    assert (samples.method, samples.l2) == ("events", "cold")
    assert samples.figure == pytest.approx(50.0 + 2 * GAP_US, rel=0.02)


def test_a_clock_that_rises_after_the_calibration_leaves_no_short_samples(gpu):
    def call():
        gpu.kernel(10.0)

    gpu.clock_factor = 3.0
    bench = cuda.CudaBench()
    paused = []

    def pause(seconds):
        gpu.synchronize()
        gpu.host_us += seconds * 1e6
        paused.append(seconds)
        if len(paused) == 3:
            gpu.clock_factor = 1.0

    bench.pause = pause
    samples = Stopwatch(bench=bench)(call)
    assert samples.calls_per_sample * (10.0 + GAP_US) >= 2500


def test_another_word_for_the_cache_is_refused(gpu):
    with pytest.raises(ValueError, match="known are 'hot' and 'cold'"):
        stopwatch()(lambda: gpu.kernel(1.0), l2="warm")


def test_a_spin_is_lengthened_before_the_batch_is_cut():
    asked = []

    def is_fed(feed: Feed) -> bool:
        asked.append(feed)
        return feed.spin_ms > 5.0

    found = find_feed(is_fed, per_call_ms=0.04)
    assert found == asked[-1]
    assert found.calls == 64
    assert [feed.calls for feed in asked] == [64, 64]


def test_a_batch_that_the_gpu_ran_short_of_is_measured_again(gpu):
    stalls = iter([0.0] * 20 + [50_000.0] + [0.0] * 100_000)
    own = torch.cuda.CUDAGraph()
    with torch.cuda.graph(own, stream=object()):
        gpu.kernel(100.0)

    def call():
        gpu.host_us += next(stalls)
        own.replay()

    bench = cuda.CudaBench()
    bench.launch_elsewhere()
    play = events.EventsPlay(bench, call, 10, Feed(10, 2.0), cold=False)
    assert {round(play.sample().counted_ms, 3) for _ in range(5)} == {1.01}


def test_no_batch_is_fed_where_the_callable_always_waits():
    assert find_feed(lambda feed: False, per_call_ms=0.04) is None


def test_torch_takes_the_arguments_the_capture_gives_it():
    parameters = inspect.signature(torch.cuda.graph.__init__).parameters
    assert {"pool", "stream", "capture_error_mode"} <= parameters.keys()
    graph_class = torch.cuda.CUDAGraph
    assert hasattr(graph_class, "replay")
    assert "capture_error_mode" in inspect.signature(graph_class.capture_begin).parameters
    assert callable(graph_class.capture_end)
