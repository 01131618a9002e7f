# SPDX-License-Identifier: Apache-2.0
"""Millstream: sequential task flow for GPUs and CPUs.

A program names its data once, then submits tasks in program order and says for each which data it
reads and writes. The order, the copies and the overlap follow from that::

    import numpy as np
    import millstream as stf

    x, y = np.ones(16), np.zeros(16)
    with stf.context(machine=stf.machine("host")) as ctx:
        lx, ly = ctx.logical_data(x), ctx.logical_data(y)
        ctx.submit(lambda a, b: np.multiply(a, 2, out=b), lx.read(), ly.write())
    print(y)  # all 2

Importing the package loads neither the compiled module nor NumPy; the first use of a name does.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers know better; importing it from typing takes milliseconds
if TYPE_CHECKING:
    from millstream._access import AccessMode as AccessMode
    from millstream._core import async_resources as async_resources
    from millstream._core import context as context
    from millstream._core import cuda_kernel as cuda_kernel
    from millstream._core import current_task as current_task
    from millstream._core import data_place as data_place
    from millstream._core import dep as dep
    from millstream._core import dlpack_export as dlpack_export
    from millstream._core import exec_place as exec_place
    from millstream._core import logical_data as logical_data
    from millstream._core import machine as machine
    from millstream._core import read as read
    from millstream._core import recorded_graph as recorded_graph
    from millstream._core import running_task as running_task
    from millstream._core import rw as rw
    from millstream._core import stf_cai as stf_cai
    from millstream._core import synchronize as synchronize
    from millstream._core import task as task
    from millstream._core import write as write
    from millstream._device_array import DeviceArray as DeviceArray
    from millstream._errors import ContractWarning as ContractWarning
    from millstream._errors import DeadlockError as DeadlockError
    from millstream._errors import DeviceError as DeviceError
    from millstream._errors import DeviceLostError as DeviceLostError
    from millstream._errors import Error as Error
    from millstream._errors import ExportError as ExportError
    from millstream._errors import InternalError as InternalError
    from millstream._errors import InvalidPlaceError as InvalidPlaceError
    from millstream._errors import InvalidTypeError as InvalidTypeError
    from millstream._errors import InvalidValueError as InvalidValueError
    from millstream._errors import LayoutError as LayoutError
    from millstream._errors import MissingDataError as MissingDataError
    from millstream._errors import NotWrittenError as NotWrittenError
    from millstream._errors import NumberRangeError as NumberRangeError
    from millstream._errors import OutOfMemoryError as OutOfMemoryError
    from millstream._errors import OutOfRangeError as OutOfRangeError
    from millstream._errors import PoisonedError as PoisonedError
    from millstream._errors import TaskFailedError as TaskFailedError
    from millstream._errors import TaskFailedWarning as TaskFailedWarning
    from millstream._errors import UnavailableError as UnavailableError
    from millstream._errors import UnimplementedError as UnimplementedError
    from millstream._errors import UnsupportedError as UnsupportedError
    from millstream._errors import UsageError as UsageError
    from millstream._future import Future as Future
    from millstream._stream import CudaStream as CudaStream
    from millstream.paths import get_include_paths as get_include_paths
    from millstream.paths import get_library_dir as get_library_dir
    from millstream.paths import get_library_path as get_library_path
    from millstream.paths import get_stf_include_dir as get_stf_include_dir

    __version__: str

__all__ = [
    "AccessMode",
    "ContractWarning",
    "CudaStream",
    "DeadlockError",
    "DeviceArray",
    "DeviceError",
    "DeviceLostError",
    "Error",
    "ExportError",
    "Future",
    "InternalError",
    "InvalidPlaceError",
    "InvalidTypeError",
    "InvalidValueError",
    "LayoutError",
    "MissingDataError",
    "NotWrittenError",
    "NumberRangeError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "PoisonedError",
    "TaskFailedError",
    "TaskFailedWarning",
    "UnavailableError",
    "UnimplementedError",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "async_resources",
    "context",
    "cuda_kernel",
    "current_task",
    "data_place",
    "dep",
    "dlpack_export",
    "exec_place",
    "get_include_paths",
    "get_library_dir",
    "get_library_path",
    "get_stf_include_dir",
    "logical_data",
    "machine",
    "read",
    "recorded_graph",
    "running_task",
    "rw",
    "stf_cai",
    "synchronize",
    "task",
    "write",
]

# The modules of these; errors and warnings are in `_errors`, and the rest is compiled.
_HOME = {
    "AccessMode": "_access",
    "CudaStream": "_stream",
    "DeviceArray": "_device_array",
    "Future": "_future",
    "get_include_paths": "paths",
    "get_library_dir": "paths",
    "get_library_path": "paths",
    "get_stf_include_dir": "paths",
}
# What this module needs itself.
_OWN = {"TYPE_CHECKING", "annotations", "importlib"}


def _find_version() -> str:
    from importlib import metadata

    try:
        return metadata.version("millstream")
    except metadata.PackageNotFoundError:
        return "0.0.0"


def _home_of(name: str) -> str:
    otherwise = "_errors" if name.endswith(("Error", "Warning")) else "_core"
    return f"millstream.{_HOME.get(name, otherwise)}"


# Checkers would take it for any name at all.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            value = _find_version()
        elif name in __all__:
            value = getattr(importlib.import_module(_home_of(name)), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - _OWN)
