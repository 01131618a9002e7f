# SPDX-License-Identifier: Apache-2.0
"""Streams as numbers."""

from __future__ import annotations

from millstream._errors import InvalidTypeError, InvalidValueError


class CudaStream(int):
    """The number of a stream: a raw handle on a GPU machine, else the number of a queue.

    It is an `int`, and it offers the ``__cuda_stream__`` protocol, so that frameworks take it
    wherever they take either. Wait for it with `millstream.synchronize`.
    """

    __slots__ = ()

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version of the protocol and raw handle."""
        return (0, int(self))

    @property
    def ptr(self) -> int:
        """The number as a plain `int`."""
        return int(self)

    def __repr__(self) -> str:
        """``CudaStream(0x...)``."""
        return f"CudaStream({int(self):#x})"


def _stream_number(stream: object) -> int:
    """Number of a stream given as `None` (0), `int` or object with ``__cuda_stream__``."""
    if stream is None:
        return 0
    protocol = getattr(stream, "__cuda_stream__", None)
    if callable(protocol):
        return _from_protocol(stream, protocol())
    if not isinstance(stream, int):
        raise InvalidTypeError(
            f"a stream cannot be made of type {type(stream).__name__}; "
            "pass an int, None or an object with __cuda_stream__"
        )
    return _checked(int(stream))


def _from_protocol(stream: object, answer: object) -> int:
    who = f"__cuda_stream__ of type {type(stream).__name__}"
    if not isinstance(answer, (tuple, list)) or len(answer) < 2:
        raise InvalidTypeError(f"{who} gave {answer!r}; it must give (0, handle)")
    version, handle = answer[0], answer[1]
    if version != 0:
        raise InvalidTypeError(f"{who} has version {version!r}; only version 0 is known")
    if not isinstance(handle, int):
        raise InvalidTypeError(f"{who} gave a handle of type {type(handle).__name__}; give an int")
    return _checked(int(handle))


def _checked(number: int) -> int:
    if not 0 <= number < 2**64:
        raise InvalidValueError(f"stream {number} is out of range; pass a number of 0 to 2**64 - 1")
    return number
