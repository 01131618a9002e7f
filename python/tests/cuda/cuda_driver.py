# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver by ctypes, as a program of a user would call it: memory, streams, kernels.

The library is the one that MILLSTREAM_CUDA_DRIVER names: the look-alike of tests/fakes/cuda_driver
or a real one. Both run the kernels of tests/fakes/cuda_driver/kernels.ptx.
"""

import ctypes
import os
import pathlib

import numpy as np

LIBRARY = os.environ.get("MILLSTREAM_CUDA_DRIVER")
KERNELS = pathlib.Path(__file__).resolve().parents[3] / "tests/fakes/cuda_driver/kernels.ptx"
NON_BLOCKING = 1
LEGACY = 1
RELAXED = 2
THREADS = 64

word = ctypes.c_uint64


def as_bytes(name):
    return name.encode() if isinstance(name, str) else name


class Driver:
    """Every call is checked; a failure is an AssertionError with the driver's number."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.is_look_alike = hasattr(self.library, "fake_cuda_reset")
        self._functions = {}
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        assert result == 0, f"{name} answered {result}"

    def get(self, kind, name, *arguments):
        """A call whose first parameter is where the answer goes."""
        answer = kind()
        self.call(name, ctypes.byref(answer), *arguments)
        return answer.value

    # --- contexts
    def current(self):
        return self.get(ctypes.c_void_p, "cuCtxGetCurrent")

    def use(self, context):
        self.call("cuCtxSetCurrent", ctypes.c_void_p(context))

    def primary(self, device=0):
        """Retained for good, like a framework does."""
        return self.get(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", device)

    def make_context(self, device=0):
        """Another one than the primary context, for good; it is current then."""
        return self.get(ctypes.c_void_p, "cuCtxCreate_v2", 0, device)

    # --- memory, in the current context
    def allocate(self, nbytes):
        return self.get(word, "cuMemAlloc_v2", ctypes.c_size_t(nbytes))

    def allocate_managed(self, nbytes):
        return self.get(word, "cuMemAllocManaged", ctypes.c_size_t(nbytes), 1)

    def allocate_pinned(self, nbytes):
        return self.get(ctypes.c_void_p, "cuMemHostAlloc", ctypes.c_size_t(nbytes), 0)

    def free(self, pointer):
        self.call("cuMemFree_v2", word(pointer))

    def upload(self, pointer, values):
        values = np.ascontiguousarray(values)
        self.call("cuMemcpyHtoD_v2", word(pointer), values.ctypes.data_as(ctypes.c_void_p),
                  ctypes.c_size_t(values.nbytes))  # fmt: skip
        # From pageable memory that returns when the values are on their way.
        self.synchronize(None)

    def download(self, pointer, count, dtype=np.float64):
        values = np.empty(count, dtype)
        self.call("cuMemcpyDtoH_v2", values.ctypes.data_as(ctypes.c_void_p), word(pointer),
                  ctypes.c_size_t(values.nbytes))  # fmt: skip
        return values

    # --- streams
    def make_stream(self):
        return self.get(ctypes.c_void_p, "cuStreamCreate", NON_BLOCKING)

    def end_stream(self, stream):
        self.call("cuStreamDestroy_v2", ctypes.c_void_p(stream))

    def synchronize(self, stream):
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    # --- kernels of the test module, in the current context
    def launch(self, name, stream, *arguments, grid=4):
        function = self._function(name)
        holders = [each if isinstance(each, ctypes._SimpleCData) else word(int(each))
                   for each in arguments]  # fmt: skip
        addresses = (ctypes.c_void_p * len(holders))(
            *[ctypes.cast(ctypes.pointer(each), ctypes.c_void_p) for each in holders]
        )
        self.call("cuLaunchKernel", ctypes.c_void_p(function), grid, 1, 1, THREADS, 1, 1, 0,
                  ctypes.c_void_p(int(stream)), addresses, None)  # fmt: skip

    def _function(self, name):
        context = self.current()
        if (context, name) not in self._functions:
            image = ctypes.c_char_p(KERNELS.read_bytes() + b"\0")
            module = self.get(ctypes.c_void_p, "cuModuleLoadData", image)
            self._functions[context, name] = self.get(
                ctypes.c_void_p, "cuModuleGetFunction", ctypes.c_void_p(module), as_bytes(name)
            )
        return self._functions[context, name]

    def fill(self, stream, pointer, value, count):
        self.launch("test_fill_f64", stream, pointer, ctypes.c_double(value), count)

    def scale(self, stream, pointer, factor, count):
        self.launch("test_scale_f64", stream, pointer, ctypes.c_double(factor), count)

    def axpy(self, stream, y, x, factor, count):
        self.launch("test_axpy_f64", stream, y, x, ctypes.c_double(factor), count)

    def spin(self, stream, turns=2000):
        self.launch("test_spin", stream, turns, grid=1)

    # --- the look-alike only
    def count(self, name):
        self.library.fake_cuda_count.restype = ctypes.c_uint64
        return self.library.fake_cuda_count(None if name is None else as_bytes(name))

    def host_waits(self):
        """Calls so far in which the host may wait for a device."""
        return sum(self.count(name) for name in
                   ("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize",
                    "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemcpy"))  # fmt: skip


class DeviceArray:
    """Device memory of a user's, with the CUDA Array Interface."""

    def __init__(self, driver, values, stream=None, readonly=False, strides=None, version=3):
        self.driver = driver
        self.values = np.array(values, order="C")
        self.pointer = driver.allocate(max(self.values.nbytes, 8))
        driver.upload(self.pointer, self.values)
        self.__cuda_array_interface__ = {
            "version": version, "shape": self.values.shape, "typestr": self.values.dtype.str,
            "data": (self.pointer, readonly), "strides": strides, "stream": stream,
        }  # fmt: skip
        if self.values.dtype.fields:
            self.__cuda_array_interface__["descr"] = self.values.dtype.descr

    def get(self):
        flat = self.driver.download(self.pointer, self.values.size, self.values.dtype)
        return flat.reshape(self.values.shape)
