# SPDX-License-Identifier: Apache-2.0
"""One-dimensional arrays in the memory of a place."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream import _core
from millstream._errors import (
    ExportError,
    InvalidTypeError,
    InvalidValueError,
    LayoutError,
    OutOfRangeError,
    UnavailableError,
)
from millstream._stream import _stream_number

if TYPE_CHECKING:
    from typing import NoReturn, SupportsIndex

    from numpy.typing import NDArray

    from millstream._core import data_place

_LEGACY = 1  # the number of the default stream in both array protocols


def _release(place: data_place, pointer: int, nbytes: int, stream: object) -> None:
    # In a forked child it is the parent's, and at the end of the program the driver takes it back.
    with contextlib.suppress(UnavailableError):
        place.deallocate(pointer, nbytes, stream)


class DeviceArray:
    """An array of one dimension in memory of a place, for work outside of tasks.

    It is data, too: ``ctx.logical_data(array)`` uses it where it is. Slices share its memory and
    keep it alive; the memory is given back, behind the work then in `stream`, when the array, its
    slices and all DLPack exports are gone.

    Args:
        size: number of elements, 0 too.
        dtype: element type, as for `numpy.dtype`; not with Python objects inside.
        dplace: where the memory is: a device, the host (page-locked) or managed memory of the
            default machine.
        stream: None, a number or an object with ``__cuda_stream__``: the memory is ready for work
            queued there, and every transfer of the array takes place there. None is the default
            stream of a GPU machine.

    Raises:
        ValueError: `size` is negative.
        TypeError: `size`, `dtype`, `dplace` or `stream` are of another type.
        MemoryError: the place has no room, or is `affine`, which names no memory.
    """

    __slots__ = (
        "__weakref__", "_base", "_data_place", "_dtype", "_finalizer_ref", "_pointer", "_size",
        "_stream",
    )  # fmt: skip

    _base: DeviceArray | None
    _finalizer_ref: weakref.finalize[..., DeviceArray] | None

    def __init__(self, size: int, dtype: Any, dplace: data_place, stream: object = None) -> None:
        """See the class."""
        self._size = _to_size(size)
        self._dtype = _core.to_dtype(dtype)
        self._data_place = dplace
        self._stream = stream
        self._base = None
        nbytes = self.nbytes
        self._pointer = dplace.allocate(nbytes, stream) if nbytes > 0 else 0
        self._finalizer_ref = weakref.finalize(
            self, _release, dplace, self._pointer, nbytes, stream
        )
        # The process gives everything back at its end, and the machine may be closed by then.
        self._finalizer_ref.atexit = False

    @staticmethod
    def from_host(host_array: Any, dplace: data_place, stream: object = None) -> DeviceArray:
        """A new array with the content of a NumPy array, or of what `numpy.asarray` takes.

        Raises:
            ValueError: it has more than one dimension; pass ``x.ravel()``.
        """
        values = np.ascontiguousarray(host_array)
        if values.ndim != 1:
            raise InvalidValueError(
                f"DeviceArray.from_host() got an array of {values.ndim} dimensions; "
                "it must be 1-D: pass x.ravel()"
            )
        made = DeviceArray(values.size, values.dtype, dplace, stream)
        made.copy_to_device(values)
        return made

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._size

    @property
    def shape(self) -> tuple[int]:
        """``(size,)``."""
        return (self._size,)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._size * self._dtype.itemsize)

    @property
    def data_place(self) -> data_place:
        """Where the memory is."""
        return self._data_place

    def __len__(self) -> int:
        """Number of elements."""
        return self._size

    def __getitem__(self, key: slice) -> DeviceArray:
        """A part that shares the memory; bounds are cut as for a list.

        Raises:
            IndexError: the step is not 1.
            TypeError: `key` is no slice.
        """
        if not isinstance(key, slice):
            raise InvalidTypeError(
                f"a DeviceArray is indexed with {type(key).__name__}; pass a slice such as [2:5]"
            )
        start, stop, step = key.indices(self._size)
        if step != 1:
            raise OutOfRangeError(f"a slice of a DeviceArray has step {step}; only 1 is possible")
        part = DeviceArray.__new__(DeviceArray)
        part._size = max(stop - start, 0)
        part._dtype = self._dtype
        part._data_place = self._data_place
        part._stream = self._stream
        part._base = self._root()
        part._pointer = self._pointer + start * self._dtype.itemsize if self._pointer else 0
        part._finalizer_ref = None
        return part

    def _root(self) -> DeviceArray:
        return self if self._base is None else self._base

    def copy_to_host(self) -> NDArray[Any]:
        """A NumPy array with the content that the array has behind the work in its stream."""
        values = np.empty(self._size, self._dtype)
        _core.copy_from_memory(values, self._pointer, _stream_number(self._stream))
        return values

    def copy_to_device(self, h: Any) -> None:
        """Overwrites the content; `h` is converted to the dtype. Returns when it is there.

        Raises:
            ValueError: `h` has another number of bytes.
        """
        values = np.ascontiguousarray(h, dtype=self._dtype)
        if values.nbytes != self.nbytes:
            raise LayoutError(
                f"copy_to_device() got {values.nbytes} bytes for a DeviceArray of {self.nbytes}; "
                f"pass {self._size} elements"
            )
        _core.copy_to_memory(values, self._pointer, _stream_number(self._stream))

    def _interface(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "version": 3, "shape": self.shape, "typestr": self._dtype.str,
            "data": (self._pointer, False), "strides": None,
        }  # fmt: skip
        if self._dtype.fields is not None:
            made["descr"] = self._dtype.descr
        return made

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """CUDA Array Interface, version 3; AttributeError on a machine without GPUs."""
        if _core.has_host_memory():
            raise AttributeError("__cuda_array_interface__")
        stream = _stream_number(self._stream)
        return {**self._interface(), "stream": stream if stream != 0 else None}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's interface, version 3; AttributeError for memory of a GPU machine."""
        if not _core.has_host_memory():
            raise AttributeError("__array_interface__")
        return self._interface()

    def __dlpack_device__(self) -> tuple[int, int]:
        """Kind and number: ``(2, i)`` GPU i, ``(3, 0)`` page-locked, ``(13, 0)`` managed memory.

        ``(1, 0)``, the CPU, on a host machine.
        """
        return _core.dlpack_device_of(self._pointer)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule (``dltensor``) that keeps the memory alive; never a copy.

        Args:
            stream: work queued there from now on comes after what the array's stream has in it.
                None and 1 are the legacy default stream, 2 that of the thread, -1 asks for no
                order. Nothing waits on the host.
            max_version: the form before version 1 is what every consumer takes.
            dl_device: only the array's own.
            copy: only False or None.

        Raises:
            BufferError: a copy or another device is asked for, or DLPack has no word for the
                elements.
            ValueError: a negative stream other than -1.
            TypeError: a stream that is no int.
        """
        own = self.__dlpack_device__()
        if copy:
            raise ExportError("a DeviceArray is handed over without a copy; use copy_to_host()")
        if dl_device is not None and tuple(dl_device) != own:
            raise ExportError(
                f"a DeviceArray cannot move to another device; take it where it is, on device {own}"
            )
        capsule = _core.dlpack_capsule(self._root(), self._pointer, self._size, self._dtype, own)
        consumer = _to_consumer(stream)
        if consumer is not None and self._size > 0 and own[0] != 1:
            _core.order_streams(consumer, _stream_number(self._stream))
        return capsule

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """TypeError: the memory has one owner."""
        raise InvalidTypeError(
            "a DeviceArray cannot be copied or pickled, because its memory has one owner; use a "
            "slice such as [:], or DeviceArray.from_host(x.copy_to_host(), place)"
        )

    def __repr__(self) -> str:
        """Size, dtype, address and place."""
        return (
            f"DeviceArray(size={self._size}, dtype={self._dtype}, ptr={self._pointer:#x}, "
            f"place={self._data_place.kind})"
        )


def _to_size(size: object) -> int:
    try:
        number = size.__index__()  # type: ignore[attr-defined]
    except AttributeError:
        raise InvalidTypeError(
            f"'size' is of type {type(size).__name__}; pass an integer"
        ) from None
    if number < 0:
        raise InvalidValueError(f"'size' is {number}; it must be non-negative")
    return int(number)


def _to_consumer(stream: object) -> int | None:
    if stream is None:
        return _LEGACY
    if not isinstance(stream, int):
        raise InvalidTypeError(f"'stream' is of type {type(stream).__name__}; pass an int or None")
    if stream == -1:
        return None
    if stream < 0:
        raise InvalidValueError(
            f"stream {stream} is disallowed by DLPack; give a handle, or -1 for no order"
        )
    return int(stream) if stream > 0 else _LEGACY
