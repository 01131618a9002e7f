# SPDX-License-Identifier: Apache-2.0
"""What `cuda_kernel.launch` takes: kernels as other packages have them, and their arguments.

The compiled module knows integers, objects with `_handle`, numbers and views; it asks here for
everything else. No package is imported that the caller has not imported.
"""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any, NamedTuple

from millstream._core import stf_cai
from millstream._errors import InvalidTypeError, InvalidValueError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_CData: Any = ctypes._SimpleCData.__mro__[1]
_Function: Any = ctypes._CFuncPtr  # type: ignore[attr-defined]
_Pointer: Any = ctypes._Pointer
_DEVICE_PACKAGES = ("cuda", "cupy", "numba", "numba_cuda", "triton")


class Found(NamedTuple):
    """A kernel and what its own package would launch it with; None = the caller says it."""

    handle: int
    convert: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    threads: int | None = None  # of a block
    shared: int | None = None  # bytes of dynamic shared memory
    cluster: tuple[int, int, int] | None = None  # the grid counts clusters
    cooperative: bool = False
    programmatic: bool = False


def find(kernel: Any) -> Found:
    """The native handle of a kernel; its device is current."""
    if hasattr(kernel, "overloads") or hasattr(kernel, "_codelibrary"):
        return _find_numba(kernel)
    if hasattr(kernel, "metadata") and hasattr(kernel, "src"):
        return _find_triton(kernel)
    function = getattr(kernel, "kernel", kernel)  # CuPy compiles its RawKernel here
    if hasattr(function, "ptr"):
        return Found(
            _to_int(function.ptr),
            cooperative=bool(getattr(kernel, "enable_cooperative_groups", False)),
        )
    raise InvalidTypeError(
        f"a kernel of type {type(kernel).__name__} cannot be launched; pass a kernel of cuda.core, "
        "CuPy, Numba or Triton, or the handle of a CUfunction or CUkernel as an int"
    )


def _to_int(handle: Any) -> int:
    """Handles are integers, objects with `__int__`, or of ctypes."""
    return int(handle.value or 0) if isinstance(handle, _CData) else int(handle)


# --- Numba


def _find_numba(kernel: Any) -> Found:
    if hasattr(kernel, "overloads"):
        compiled = list(kernel.overloads.values())
        if len(compiled) != 1:
            raise InvalidTypeError(
                f"the Numba kernel has {len(compiled)} compiled versions; give cuda.jit one "
                "signature, or pass what its specialize() gives"
            )
        kernel = compiled[0]
    kernel.bind()
    types = kernel.argument_types
    return Found(
        _to_int(kernel._codelibrary.get_cufunc().handle),
        convert=lambda args: _expand_numba(types, args),
        cooperative=bool(getattr(kernel, "cooperative", False)),
    )


def _expand_numba(types: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Numba's calling convention: an array is several parameters."""
    if len(types) != len(args):
        raise InvalidTypeError(f"the Numba kernel takes {len(types)} arguments, not {len(args)}")
    expanded: list[Any] = []
    for index, (kind, value) in enumerate(zip(types, args, strict=True)):
        expanded += _numba_argument(kind, value, index)
    return expanded


def _numba_argument(kind: Any, value: Any, index: int) -> list[Any]:
    name = type(kind).__name__
    if name == "Array":
        return _numba_array(kind, value, index)
    if name == "Float" and str(kind) in ("float32", "float64"):
        return [ctypes.c_float(value) if str(kind) == "float32" else ctypes.c_double(value)]
    if name == "Complex":
        part = ctypes.c_float if str(kind) == "complex64" else ctypes.c_double
        return [part(value.real), part(value.imag)]
    if name in ("Integer", "IntegerLiteral", "Boolean", "CPointer"):
        return [int(value)]
    raise InvalidTypeError(
        f"argument {index} of a Numba kernel is of type {kind}, which is unknown"
    )


def _numba_array(kind: Any, value: Any, index: int) -> list[Any]:
    import numpy as np

    view = getattr(value, "__cuda_array_interface__", None)
    if view is None:
        raise InvalidTypeError(
            f"argument {index} of a Numba kernel is an array ({kind}); pass get_arg_cai(i)"
        )
    dtype, shape = np.dtype(view["typestr"]), tuple(view["shape"])
    if len(shape) != kind.ndim or str(kind.dtype) not in (dtype.name, str(dtype)):
        raise InvalidTypeError(
            f"argument {index} of a Numba kernel is {kind}, not {len(shape)} dimensions of {dtype}"
        )
    strides = view.get("strides") or np.cumprod((dtype.itemsize, *shape[:0:-1]))[::-1].tolist()
    return [0, 0, math.prod(shape), dtype.itemsize, view["data"][0], *shape, *strides]


# --- Triton


def _find_triton(kernel: Any) -> Found:
    how = kernel.metadata
    if getattr(how, "global_scratch_size", 0) or getattr(how, "profile_scratch_size", 0):
        raise UnsupportedError(
            "the Triton kernel needs scratch memory of its launcher; launch it in a task"
        )
    if getattr(kernel, "function", None) is None:
        kernel._init_handles()
    clusters = tuple(getattr(how, "cluster_dims", (1, 1, 1)))
    warp = getattr(getattr(how, "target", None), "warp_size", 32)
    hidden = sum(hasattr(how, name) for name in ("global_scratch_size", "profile_scratch_size"))
    return Found(
        _to_int(kernel.function),
        convert=lambda args: _convert_triton(kernel.src, args, hidden),
        threads=warp * how.num_warps,
        shared=how.shared,
        cluster=clusters if getattr(how, "num_ctas", 1) > 1 else None,
        cooperative=bool(getattr(how, "launch_cooperative_grid", False)),
        programmatic=bool(getattr(how, "launch_pdl", False)),
    )


def _convert_triton(source: Any, args: Sequence[Any], hidden: int) -> list[Any]:
    """The arguments that are left at run time, then the null pointers of its launcher."""
    constants = set(getattr(source, "constants", None) or ())
    types = [
        kind
        for index, (name, kind) in enumerate(source.signature.items())
        if kind != "constexpr" and not constants & {name, index, (index,)}
    ]
    if len(types) != len(args):
        raise InvalidTypeError(
            f"the Triton kernel takes {len(types)} arguments at run time, not {len(args)}; leave "
            "the constexpr ones out"
        )
    return [*map(_triton_argument, types, args), *[0] * hidden]


def _triton_argument(kind: str, value: Any) -> Any:
    if kind in ("fp32", "f32"):
        return ctypes.c_float(value)
    if kind == "fp64":
        return ctypes.c_double(value)
    if kind == "fp16":
        return ctypes.c_uint16(struct.unpack("<H", struct.pack("<e", value))[0])
    if kind == "bf16":
        return ctypes.c_uint16(struct.unpack("<I", struct.pack("<f", value))[0] >> 16)
    return value


# --- Arguments


def convert(argument: Any, index: int) -> Any:
    """An argument that is no number, view or buffer, as one of these."""
    interface = getattr(argument, "__cuda_array_interface__", None)
    if interface is not None:
        return ctypes.c_void_p(interface["data"][0])
    if type(argument).__module__.partition(".")[0] == "cuda":  # a Buffer, a CUdeviceptr, ...
        handle = getattr(argument, "handle", argument)
        if hasattr(handle, "__int__"):
            return ctypes.c_void_p(int(handle))
    small = {1: ctypes.c_uint8, 2: ctypes.c_uint16}.get(getattr(argument, "itemsize", 0))
    if small is not None and type(argument).__module__.startswith("ml_dtypes"):
        return small.from_buffer_copy(argument.tobytes())
    raise InvalidTypeError(
        f"argument {index} of a kernel is of type {type(argument).__name__}; pass a number, a "
        "scalar of ctypes or NumPy, a structure of ctypes, an address, or a view of device memory "
        "such as get_arg_cai(i)"
    )


def alignment(structure: Any) -> int:
    """In bytes."""
    if isinstance(structure, _CData):
        return ctypes.alignment(structure)
    return int(structure.dtype.alignment)


# --- The host machine


def host_function(kernel: Any) -> Any:
    """What a launch calls there."""
    if isinstance(kernel, int) and not isinstance(kernel, bool):
        if kernel > 0:
            return kernel
        raise InvalidValueError("a kernel has address 0; pass the address of a function")
    of_device = type(kernel).__module__.partition(".")[0] in _DEVICE_PACKAGES
    if callable(kernel) and not of_device:
        return kernel
    raise InvalidTypeError(
        f"a kernel of type {type(kernel).__name__} cannot be launched on the host machine; pass a "
        "function of ctypes, or the address of one"
    )


def bind(function: Any, args: Iterable[Any]) -> tuple[Any, tuple[Any, ...]]:
    """The function, and its arguments as they are now."""
    values = tuple(args)
    if isinstance(function, int):
        typed = tuple(_to_ctypes(value, index) for index, value in enumerate(values))
        return ctypes.CFUNCTYPE(None, *map(type, typed))(function), typed
    if not isinstance(function, _Function):
        return function, tuple(map(_snapshot, values))
    if function.argtypes is None:
        return function, tuple(_to_ctypes(value, index) for index, value in enumerate(values))
    return function, _match(function, tuple(map(_snapshot, values)))


def _match(function: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """For a function that says what it takes: mistakes are told now and not when it is called."""
    wanted = function.argtypes
    if len(wanted) != len(values):
        raise InvalidTypeError(f"the kernel takes {len(wanted)} arguments, not {len(values)}")
    matched = []
    for index, (kind, value) in enumerate(zip(wanted, values, strict=True)):
        if isinstance(value, int) and isinstance(kind, type) and issubclass(kind, _Pointer):
            value = ctypes.cast(value, kind)
        try:
            kind.from_param(value)
        except (TypeError, ctypes.ArgumentError) as refused:
            raise InvalidTypeError(f"argument {index} of the kernel: {refused}") from None
        matched.append(value)
    return tuple(matched)


def _address(value: Any) -> int | None:
    """Of a view or a device array."""
    if isinstance(value, stf_cai) or type(value).__name__ == "DeviceArray":
        return int(value.ptr)
    interface = getattr(value, "__cuda_array_interface__", None)
    return None if interface is None else int(interface["data"][0])


def _snapshot(value: Any) -> Any:
    """Objects of ctypes may be changed before the call."""
    if isinstance(value, _CData):
        copy = type(value).from_buffer_copy(value)
        copy._kept = value  # what it points to
        return copy
    address = _address(value)
    return value if address is None else address


def _to_ctypes(value: Any, index: int) -> Any:
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return (ctypes.c_int64 if value < 1 << 63 else ctypes.c_uint64)(value)
    if isinstance(value, float):
        return ctypes.c_double(value)
    if isinstance(value, _CData):
        return _snapshot(value)
    address = _address(value)
    if address is not None:
        return ctypes.c_void_p(address)
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        import numpy as np

        try:
            kind: Any = np.ctypeslib.as_ctypes_type(value.dtype)
        except NotImplementedError:
            pass
        else:
            return kind(value.item())
    raise InvalidTypeError(
        f"argument {index} of a kernel is of type {type(value).__name__}; pass a number, a scalar "
        "of ctypes or NumPy, a structure of ctypes, an address, or a view such as get_arg_cai(i)"
    )
