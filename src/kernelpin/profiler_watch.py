"""Which torch profiler is at work in this process, and who may start one.

torch's profiler is one session a process and does not nest: one that starts inside another, or
while another is warming up, loses events or crashes the process (seen with torch 2.13). So every
way into it is watched: from the first capture on, `profile._prepare_trace`, `_enable_profiler` and
`_disable_profiler` of `torch.autograd.profiler` go through the watch, which knows the session's
state and refuses, by a `CaptureError`, whatever would disturb a capture.
"""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

__all__ = ["CaptureError", "ProfilerWatch", "watch"]

_REMEDY = "torch's profiler does not nest, and can crash the process where it is made to"


class CaptureError(RuntimeError):
    """A capture and another profiler that would disturb each other; says which and where."""


# The name under which it is imported: pytest puts module and name before line 1.
CaptureError.__module__ = "kernelpin"


class ProfilerWatch:
    """The state of the process's one profiler session, and the capture that owns it, if any.

    A capture owns it within `with watch() as watching:`.
    """

    def __init__(self) -> None:
        import torch.autograd.profiler as autograd_profiler

        self._profiler: Any = autograd_profiler
        self._lock = threading.RLock()
        self._warming = _one_that_warms(autograd_profiler.profile)
        self._owner: threading.Thread | None = None
        self._ours = False
        self._refused: CaptureError | None = None
        self._put_up()

    def __enter__(self) -> Self:
        """Until `__exit__` nobody else starts a profiler; CaptureError where one is at work."""
        __tracebackhide__ = True
        with self._lock:
            if (found := self._at_work()) is not None:
                raise CaptureError(f"{found}: {_REMEDY}")
            self._owner, self._refused = threading.current_thread(), None
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        __tracebackhide__ = True
        with self._lock:
            refused, self._owner, self._refused = self._refused, None, None
            # Which a refused profiler had set before it was refused.
            self._profiler._set_is_profiler_enabled(False)
        if refused is not None and error is None:
            raise refused  # the function caught the error, and went on without

    @contextmanager
    def ours(self) -> Iterator[None]:
        """What the owner does in here is done to its own session."""
        self._ours = True
        try:
            with warnings.catch_warnings():
                # torch warns of what it does by design (it keeps the last cycle's events). As an
                # error it would leave a session half prepared, which crashes on its way out.
                warnings.simplefilter("ignore")
                yield
        finally:
            self._ours = False

    def end_session(self) -> None:
        """Close the owner's session where its profiler could not."""
        import torch

        if torch.autograd._profiler_enabled():
            self._profiler._disable_profiler()
        self._warming = None

    def _put_up(self) -> None:
        profiler = self._profiler
        prepare, enable, disable = (
            profiler.profile._prepare_trace,
            profiler._enable_profiler,
            profiler._disable_profiler,
        )

        def prepared(profile: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            with self._lock:
                self._admit()
                self._warming = weakref.ref(profile)
            return prepare(profile, *args, **kwargs)

        def enabled(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            return self._pass(enable, args, kwargs)

        def disabled(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            return self._pass(disable, args, kwargs)

        profiler.profile._prepare_trace = prepared
        profiler._enable_profiler = enabled
        profiler._disable_profiler = disabled

    def _pass(
        self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        __tracebackhide__ = True
        with self._lock:
            self._admit()
            self._warming = None
        return original(*args, **kwargs)

    def _at_work(self) -> str | None:
        import torch

        if (owner := self._owner) is not None:
            where = "this" if owner is threading.current_thread() else "another"
            return f"a capture is running already, in {where} thread ({owner.name})"
        if self._profiler._is_profiler_enabled or torch.autograd._profiler_enabled():
            return "a torch profiler is recording already; stop it before the capture"
        if self._is_one_warming():
            return "a torch profiler is warming up already; stop it before the capture"
        return None

    def _is_one_warming(self) -> bool:
        if self._warming is None:
            return False
        if self._warming() is not None:
            gc.collect()  # one that was forgotten is held by cycles of its own
        return self._warming() is not None

    def _admit(self) -> None:
        __tracebackhide__ = True
        owner, here = self._owner, threading.current_thread()
        if owner is None or (self._ours and owner is here):
            return
        if owner is here:
            what = "the captured function starts or stops a torch profiler"
        else:
            what = f"this torch profiler disturbs the capture that runs in thread {owner.name}"
        error = CaptureError(f"{what}; do it before the capture or after it: {_REMEDY}")
        if owner is here:
            self._refused = error
        raise error


def _one_that_warms(profile: type) -> weakref.ref[Any] | None:
    """A profiler that was prepared, but not started, before there was a watch."""
    known: list[Any] = [each for each in gc.get_objects() if type(each) is profile]
    for each in known:
        if each.entered and not each.profiling_start_time_ns:
            return weakref.ref(each)
    return None


_watch: ProfilerWatch | None = None
_making = threading.Lock()


def watch() -> ProfilerWatch:
    """The process's watch, put up when first asked for."""
    global _watch
    with _making:
        if _watch is None:
            _watch = ProfilerWatch()
        return _watch
