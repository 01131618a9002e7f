# SPDX-License-Identifier: Apache-2.0
"""CuPy: the current stream of a body."""

from __future__ import annotations

import threading

from millstream._stream import CudaStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from millstream.interop._current import Switch

# By stream and device. Streams are pooled, so that there are few. Never emptied: the objects of
# `Stream.from_external` destroy the stream, which is not theirs, when they die (CuPy 14).
_switches: dict[tuple[int, int], Switch] = {}
_making = threading.Lock()


class _stream_switch:
    """CuPy keeps what was current before on a stack of the thread, so one object serves all."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def enter(self, arguments: tuple[Any, ...]) -> None:
        self._stream.__enter__()

    def leave(self, before: None) -> None:
        self._stream.__exit__(None, None, None)


def stream_switch(cupy: Any, stream: int, device: int) -> Switch | None:
    """The switch to `stream`, whose `device` is current; None where CuPy has no GPU."""
    known = _switches.get((stream, device))
    if known is not None:
        return known
    cuda = getattr(cupy, "cuda", None)
    if cuda is None or not cuda.is_available():
        return None
    with _making:  # once each, as a second object for a stream would destroy that when it dies
        known = _switches.get((stream, device))
        if known is None:
            known = _switches[stream, device] = _stream_switch(_wrap(cuda, stream, device))
    return known


def _wrap(cuda: Any, stream: int, device: int) -> Any:
    """CuPy's object for a stream of ours."""
    from_external = getattr(cuda.Stream, "from_external", None)
    if from_external is not None:
        return from_external(CudaStream(stream))
    return cuda.ExternalStream(stream, device)  # before CuPy 14, which deprecates it
