"""What a capture meets in a real process, one forked process a scenario: some crash torch 2.13.

Run as a program it imports torch once, forks for every scenario and prints, as JSON, how each
ended. A scenario is a function here; its docstring says what must hold.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import traceback
from contextlib import suppress

SECONDS = 60  # a scenario that takes longer hangs

torch = x = model = None  # `main` sets them: pytest imports this file for the names alone


def profiler(**options):
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options)


def scheduled(wait=0, warmup=1, active=1, **options):
    return profiler(
        schedule=torch.profiler.schedule(wait=wait, warmup=warmup, active=active), **options
    )


def capture(fn=None, *args, **options):
    from kernelpin import capture

    return capture(fn, *args, **options) if fn else capture(model, x, **options)


def refused(*said, fn=None):
    """The capture is refused in these words."""
    from kernelpin import CaptureError

    said_instead = "the capture went through"
    try:
        capture(fn)
    except CaptureError as error:
        said_instead = str(error)
    for words in said:
        assert words in said_instead, said_instead
    assert "torch's profiler does not nest" in said_instead, said_instead


def works():
    """A capture works, and leaves no profiler behind."""
    from torch.autograd import profiler as autograd_profiler

    trace = capture()
    assert [len(step.ops("aten::linear")) for step in trace.steps] == [1, 1, 1]
    assert not autograd_profiler._is_profiler_enabled
    assert not torch.autograd._profiler_enabled()


def a_capture_has_a_labelled_call_in_every_step():
    trace = capture(model, x, steps=4, label="my label")
    assert [step.number for step in trace.steps] == [2, 3, 4, 5]
    for step in trace.steps:
        (label,) = step.ops("my label")
        assert label.is_annotation
        assert [op.name for op in label.children] == ["aten::linear"]
    assert trace.device is None
    assert trace.kernels == ()
    assert trace.source == "capture of Linear"


def a_capture_records_shapes_unless_told_otherwise():
    (linear,) = capture(steps=1).ops("aten::linear")
    assert linear.shapes[0] == (4, 8)
    (linear,) = capture(steps=1, record_shapes=False).ops("aten::linear")
    assert not any(linear.shapes)


def a_capture_calls_the_function_for_its_warm_up_and_two_more_times():
    calls = []
    capture(lambda: calls.append(model(x)), steps=3, warmup=5)
    assert len(calls) == 5 + 2 + 3


def a_capture_keeps_no_host_name_and_no_path():
    from kernelpin.profiling import record

    recording = record(model, x)
    assert f'"{socket.gethostname()}"'.encode() not in recording.data
    assert tempfile.gettempdir().encode() not in recording.data
    assert b'"traceName": ""' in recording.data
    assert json.loads(recording.data)["traceEvents"]
    assert recording.trace.ops("aten::linear")


def a_capture_synchronises_behind_every_call_on_cuda():
    import warnings

    from kernelpin import profiling

    done = []
    profiling._synchronize = lambda cuda: done.append("synchronize" if cuda else "nothing")
    with warnings.catch_warnings(action="ignore"):  # this torch may have no CUDA to profile
        capture(lambda: done.append("call"), steps=2, warmup=1, cuda=True)
    assert done == ["call", "synchronize"] * 5


def a_compiled_function_is_compiled_before_its_first_step():
    torch._dynamo.reset()
    trace = capture(torch.compile(lambda a: torch.relu(model(a)), backend="eager"), x)
    names = [[op.name for op in step.ops()] for step in trace.steps]
    assert names[0] == names[1] == names[2]
    assert "TorchDynamo Cache Lookup" in names[0]
    assert not [name for name in names[0] if "compile_inner" in name]


def an_error_in_the_warm_up_surfaces_as_itself():
    _error_in_call(1)


def an_error_in_the_call_that_is_dropped_surfaces_as_itself():
    _error_in_call(4)


def an_error_while_the_profiler_warms_up_surfaces_as_itself():
    _error_in_call(5)


def an_error_in_the_last_step_surfaces_as_itself():
    _error_in_call(8)


def _error_in_call(number, error=None):
    error = error or ZeroDivisionError("mine")
    calls = []

    def fails():
        calls.append(model(x))
        if len(calls) == number:
            raise error

    surfaced = None
    try:
        capture(fails)
    except BaseException as raised:
        surfaced = raised
    assert surfaced is error
    assert len(calls) == number
    works()


def an_interruption_surfaces_as_itself():
    _error_in_call(6, KeyboardInterrupt())


def an_error_that_takes_the_profiler_down_surfaces_as_itself():
    def lost_device(*_):
        raise RuntimeError("the GPU is gone")

    stop = torch.profiler.profile.stop

    def fails():
        model(x)
        if torch.autograd._profiler_enabled():
            torch.profiler.profile.stop = lost_device
            raise ZeroDivisionError("mine")

    try:
        capture(fails)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError("no error")
    torch.profiler.profile.stop = stop
    works()


def a_profiler_that_records_is_refused_and_keeps_its_events():
    with profiler() as outer:
        refused("recording already", "stop it before the capture")
        model(x)
    assert "aten::linear" in {event.name for event in outer.events()}
    works()


def a_profiler_that_records_in_another_thread_is_refused():
    started, done = threading.Event(), threading.Event()

    def records():
        with profiler():
            started.set()
            done.wait(SECONDS)

    thread = threading.Thread(target=records)
    thread.start()
    started.wait(SECONDS)
    refused("recording already")
    done.set()
    thread.join()
    works()


def an_autograd_profiler_that_records_is_refused():
    with torch.autograd.profiler.profile():
        refused("recording already")
    works()


def a_profiler_that_warms_up_before_the_first_capture_is_refused():
    outer = scheduled()
    outer.start()
    refused("warming up already", "stop it before the capture")
    outer.step()
    outer.stop()
    works()


def a_profiler_that_warms_up_after_a_capture_is_refused():
    works()
    outer = scheduled()
    outer.start()
    refused("warming up already")
    outer.step()
    outer.stop()
    works()


def a_profiler_that_warms_up_for_its_second_cycle_is_refused():
    works()
    if "acc_events" not in inspect.signature(torch.profiler.profile).parameters:
        return  # this torch makes another profiler for each cycle
    outer = scheduled(acc_events=True)
    outer.start()
    outer.step()
    outer.step()
    refused("warming up already")
    outer.step()
    outer.stop()
    works()


def a_profiler_that_only_waits_is_let_be():
    outer = scheduled(wait=1)
    outer.start()
    works()
    outer.step()
    outer.step()
    model(x)
    outer.stop()
    assert "aten::linear" in {event.name for event in outer.events()}


def a_profiler_forgotten_in_its_warm_up_does_no_harm():
    works()
    if torch.torch_version.TorchVersion(torch.__version__) < "2.5":
        return  # there nothing starts a profiler again, a capture neither
    outer = scheduled()
    outer.start()
    del outer
    works()


def a_function_that_profiles_is_refused():
    def profiles():
        with profiler():
            model(x)

    refused("the captured function starts or stops a torch profiler", fn=profiles)
    works()


def a_function_that_profiles_from_its_fifth_call_on_is_refused():
    calls = []

    def profiles():
        calls.append(model(x))
        if len(calls) == 5:
            with scheduled():
                model(x)

    refused("the captured function starts or stops a torch profiler", fn=profiles)
    works()


def a_function_that_profiles_and_hides_the_error_is_refused():
    def profiles():
        with suppress(Exception), profiler():
            model(x)

    refused("the captured function starts or stops a torch profiler", fn=profiles)
    works()


def a_function_that_captures_is_refused():
    refused("a capture is running already, in this thread", fn=lambda: capture())
    works()


def a_second_capture_at_once_is_refused():
    from kernelpin import CaptureError

    started, done = threading.Event(), threading.Event()

    def waits():
        model(x)
        started.set()
        done.wait(SECONDS)

    ended = []
    thread = threading.Thread(target=lambda: ended.append(capture(waits)), name="the first")
    thread.start()
    started.wait(SECONDS)
    refused("a capture is running already, in another thread (the first)")
    done.set()
    thread.join()
    assert len(ended[0].steps) == 3
    works()

    # And however they fall over one another.
    def captures():
        for _ in range(20):
            try:
                ended.append(capture())
            except CaptureError as error:
                ended.append(error)

    threads = [threading.Thread(target=captures) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 1 + 4 * 20
    works()


def a_profiler_that_another_thread_starts_meanwhile_is_refused_and_the_capture_is_whole():
    from kernelpin import CaptureError

    began, refusals = threading.Event(), []

    def profiles():
        began.wait(SECONDS)
        try:
            with profiler():
                pass
        except CaptureError as error:
            refusals.append(str(error))

    thread = threading.Thread(target=profiles)
    thread.start()
    calls = []

    def waits():
        model(x)
        calls.append(None)
        if len(calls) == 6:
            began.set()
            thread.join()

    assert len(capture(waits).steps) == 3
    assert "disturbs the capture that runs in thread MainThread" in refusals[0]
    works()


def a_profiler_afterwards_works_as_ever():
    works()
    with profiler() as after:
        model(x)
    assert "aten::linear" in {event.name for event in after.events()}


SCENARIOS = {
    name: scenario
    for name, scenario in globals().items()
    if callable(scenario) and name.startswith(("a_", "an_"))
}


def _child(scenario, out):
    signal.alarm(SECONDS)
    ended = "passed"
    try:
        scenario()
    except BaseException:
        ended = traceback.format_exc()
    os.write(out, ended.encode())
    os._exit(0)  # an orderly exit would copy all of torch's memory, to throw it away


def _run(scenario):
    inward, outward = os.pipe()
    with tempfile.TemporaryFile() as noise:
        if not (child := os.fork()):
            os.close(inward)
            os.dup2(noise.fileno(), 2)
            _child(scenario, outward)
        os.close(outward)
        with open(inward, encoding="utf-8") as pipe:
            ended = pipe.read()
        _, status = os.waitpid(child, 0)
        noise.seek(0)
        return {
            "ended": ended,
            "exit": os.waitstatus_to_exitcode(status),
            "stderr": noise.read().decode(errors="replace"),
        }


def main():
    global torch, x, model
    torch = importlib.import_module("torch")
    # The profiler's first use imports it, and the compiler: once here, not in each fork.
    importlib.import_module("torch._inductor.config")
    importlib.import_module("torch._dynamo")
    importlib.import_module("kernelpin.profiling")
    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    model, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
    names = sys.argv[1:] or SCENARIOS
    print(json.dumps({name: _run(SCENARIOS[name]) for name in names}))


if __name__ == "__main__":
    main()
