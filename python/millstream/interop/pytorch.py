# SPDX-License-Identifier: Apache-2.0
"""PyTorch: the current stream of a body."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

_streams: dict[tuple[int, int], Any] = {}


def current_stream(torch: Any, stream: int, device: int) -> AbstractContextManager[Any] | None:
    """A scope in which `stream` is PyTorch's current one; None where PyTorch has no such GPU."""
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_available() or device >= cuda.device_count():
        return None
    known = _streams.get((stream, device))
    if known is None:
        known = _streams[stream, device] = cuda.ExternalStream(stream, device=device)
    scope: AbstractContextManager[Any] = cuda.stream(known)
    return scope
