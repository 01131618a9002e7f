# SPDX-License-Identifier: Apache-2.0
"""CuPy: the current device and stream of a body."""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any


def current_stream(cupy: Any, stream: int, device: int) -> AbstractContextManager[None] | None:
    """A scope in which `device` and `stream` are CuPy's current ones; None where it has no GPU."""
    cuda = getattr(cupy, "cuda", None)
    if cuda is None or not cuda.is_available():
        return None
    return _scope(cuda, stream, device)


@contextmanager
def _scope(cuda: Any, stream: int, device: int) -> Iterator[None]:
    with cuda.Device(device), cuda.ExternalStream(stream, device):
        yield
