# SPDX-License-Identifier: Apache-2.0
"""Futures of submitted work."""

from __future__ import annotations

import concurrent.futures
import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar, cast

from millstream._errors import InvalidTypeError

if TYPE_CHECKING:
    from typing import NoReturn, SupportsIndex

    from millstream._core import future_ticket

_T = TypeVar("_T")
_SLICE_S = 0.04  # how long the main thread sleeps at most before it looks for signals


class Future(concurrent.futures.Future[_T]):
    """What submitted work will give: to be awaited, waited for, or given callbacks.

    `context.done` and `logical_data.get` make it. It is a `concurrent.futures.Future`, so what
    takes one takes this, `concurrent.futures.wait` and `asyncio.wrap_future` for example, and

        value = await x.get()

    works in any coroutine of asyncio. Any thread may use it. No thread is spent on it, and dropping
    it has no consequences. An error that tasks raised counts as seen, and is not raised by
    `context.finalize` again, once it was asked for here: by `result`, `exception` or ``await``.

    `context.finalize` returns after the futures of its context are done and their callbacks have
    returned. Futures of a context that is dropped complete all the same. Those that are not done
    when the interpreter ends raise UnavailableError, as does waiting in a forked child.
    """

    def __init__(self, what: str = "nothing") -> None:
        """`what` is for `repr`; use `context.done` or `logical_data.get`."""
        super().__init__()
        self._what = what
        self._ticket: future_ticket | None = None  # while not done
        self._on_seen: Callable[[], None] | None = None

    def result(self, timeout: float | None = None) -> _T:
        """The value; blocks until it is there, at most `timeout` seconds (None: no limit).

        Raises what the work raised, PoisonedError for data that a failed task was to write,
        `concurrent.futures.TimeoutError`, `concurrent.futures.CancelledError`. DeadlockError where
        it would never end: in a callback of a future, and in a body that the work has to wait for.
        Other threads run meanwhile, and Ctrl-C works.
        """
        self.exception(timeout)
        try:
            return super().result(0)
        finally:
            # Else the frame, in the traceback of the error that the future keeps, would keep it.
            del self

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What `result` would raise, or None; blocks and refuses as that."""
        with self._blocked(timeout):
            self._wait(timeout)
        error = super().exception(0)
        on_seen, self._on_seen = self._on_seen, None
        if on_seen is not None:
            on_seen()
        return error

    def cancel(self) -> bool:
        """Gives the future up, if it is not done: then True, and it raises CancelledError.

        The work goes on. Cancelling a coroutine that awaits it does not cancel the future.
        """
        return super().cancel()

    def add_done_callback(self, fn: Callable[[Future[_T]], object]) -> None:
        """Calls `fn` with the future when that is done: at once if it is.

        Else on a thread that all futures share, one callback after the other, so `fn` should be
        short. It may submit tasks, also to the same context, and call `context.wait`, but it may
        not wait for a future or finalize the context of one (DeadlockError). What it raises is
        logged.
        """
        super().add_done_callback(cast("Any", fn))

    def __await__(self) -> Generator[Any, None, _T]:
        """The value, or what `result` would raise. For coroutines of asyncio."""
        # Not asyncio.wrap_future(): that would count errors as seen which nobody gets, and never
        # wake up for a StopIteration.
        with self._blocked(None):
            pass  # the thread goes on, with other coroutines
        if not self.done():
            yield from self._wake().__await__()
        return self.result(0)

    def _wake(self) -> Any:
        """Of asyncio, done when this is."""
        import asyncio

        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        def tell(_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        self.add_done_callback(tell)
        return woken

    def _wait(self, timeout: float | None) -> None:
        """Until it is done; raises as `exception`, but not for an error."""
        if threading.current_thread() is not threading.main_thread():
            super().exception(timeout)
            return
        # A signal that comes just before the thread falls asleep does not wake it up.
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self.done():
            left = end - time.monotonic()
            try:
                super().exception(max(0.0, min(left, _SLICE_S)))
            except concurrent.futures.TimeoutError:
                if left <= _SLICE_S:
                    raise

    def _blocked(self, timeout: float | None) -> AbstractContextManager[object]:
        """Around a wait: refuses one that could never end."""
        ticket = self._ticket
        if ticket is None or self.done():
            return nullcontext()
        ticket.check()
        return ticket.blocked() if timeout is None else nullcontext()

    def _finish(
        self, value: Any, error: BaseException | None, on_seen: Callable[[], None] | None
    ) -> None:
        """Called once, when the work is done. `on_seen` is called when the error is asked for."""
        self._ticket = None
        if not self.set_running_or_notify_cancel():
            return
        self._on_seen = on_seen
        if error is None:
            self.set_result(value)
        else:
            self.set_exception(error)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """TypeError: a copy would never be done."""
        raise InvalidTypeError("a Future cannot be copied or pickled; use the object itself")

    def __repr__(self) -> str:
        """``Future(<what>, <state>)``; does not count as asking for the error."""
        if not self.done():
            return f"Future({self._what}, pending)"
        if self.cancelled():
            return f"Future({self._what}, cancelled)"
        error = super().exception(0)
        return f"Future({self._what}, {'done' if error is None else type(error).__name__})"
