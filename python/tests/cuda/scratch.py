# SPDX-License-Identifier: Apache-2.0
"""What libraries do inside of a task: memory in stream order, a first call that sets things up."""

import ctypes
from contextlib import contextmanager

from cuda_driver import KERNELS, word

USED, USED_HIGH, RESERVED, RESERVED_HIGH = range(4)


def allocate(driver, stream, nbytes):
    return driver.get(word, "cuMemAllocAsync", ctypes.c_size_t(nbytes), ctypes.c_void_p(stream))


def free(driver, stream, pointer):
    driver.call("cuMemFreeAsync", word(pointer), ctypes.c_void_p(stream))


@contextmanager
def memory(driver, stream, nbytes):
    """Stream-ordered memory that is freed in the end."""
    pointer = allocate(driver, stream, nbytes)
    yield pointer
    free(driver, stream, pointer)


def of_graphs(driver, what, device=0):
    """Bytes that the driver has for graphs."""
    value = word()
    driver.call("cuDeviceGetGraphMemAttribute", device, what, ctypes.byref(value))
    return value.value


def forget_highest(driver, device=0):
    driver.call("cuDeviceGraphMemTrim", device)
    for what in (USED_HIGH, RESERVED_HIGH):
        driver.call("cuDeviceSetGraphMemAttribute", device, what, ctypes.byref(word(0)))


def in_use(driver):
    """Bytes of device 0 that are taken; on a GPU, which other processes use, those of graphs."""
    driver.call("cuCtxSynchronize")  # what was to be freed is
    if driver.is_look_alike:
        driver.library.fake_cuda_used_bytes.restype = word
        return driver.library.fake_cuda_used_bytes(0)
    return of_graphs(driver, RESERVED)


def is_captured(driver, stream):
    status = ctypes.c_int(-1)
    driver.call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status))
    return status.value != 0


class Library:
    """Scales arrays. Its first call takes a workspace, as those of linear algebra do."""

    def __init__(self, driver, *, waits=False):
        self.driver, self.waits = driver, waits
        self.workspace = None

    def set_up(self, stream):
        if self.workspace is not None:
            return
        driver = self.driver
        self.workspace = driver.allocate(4096)
        image = ctypes.c_char_p(KERNELS.read_bytes() + b"\0")
        module = driver.get(ctypes.c_void_p, "cuModuleLoadData", image)
        driver.call("cuModuleUnload", ctypes.c_void_p(module))
        if self.waits:
            driver.library.cuStreamSynchronize(ctypes.c_void_p(stream))

    def scale(self, stream, pointer, factor, count):
        """By way of the workspace."""
        self.set_up(stream)
        self.driver.fill(stream, self.workspace, 0, count)
        self.driver.axpy(stream, self.workspace, pointer, factor, count)
        self.driver.fill(stream, pointer, 0, count)
        self.driver.axpy(stream, pointer, self.workspace, 1, count)

    def close(self):
        if self.workspace is not None:
            self.driver.free(self.workspace)


class WorkspacePerStream:
    """Adds numbers by way of memory that it keeps for each stream, as cuBLAS and the allocators of
    frameworks do: what is issued to one stream runs one after the other."""

    def __init__(self, driver, count):
        self.driver, self.count, self.of_stream = driver, count, {}

    def add(self, stream, pointer, number):
        driver, count = self.driver, self.count
        if int(stream) not in self.of_stream:
            self.of_stream[int(stream)] = driver.allocate(count * 8)
        workspace = self.of_stream[int(stream)]
        driver.fill(stream, workspace, number, count)
        driver.axpy(stream, pointer, workspace, 1, count)

    def close(self):
        for each in self.of_stream.values():
            self.driver.free(each)
