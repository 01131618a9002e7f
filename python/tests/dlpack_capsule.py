# SPDX-License-Identifier: Apache-2.0
"""An exporter of DLPack that is no part of Millstream: the structures of the protocol by ctypes."""

import ctypes

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
READONLY, COPIED = 1, 2
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class Element(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", Device), ("rank", ctypes.c_int32),
        ("element", Element), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", DELETER)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
        ("deleter", DELETER), ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


_python = ctypes.PyDLL(None)  # a library may give those of ctypes.pythonapi other types
_new = _python.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_name = _python.PyCapsule_GetName
_name.restype = ctypes.c_char_p
_name.argtypes = [ctypes.py_object]
_pointer = _python.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def name_of(capsule):
    return _name(capsule).decode()


def content_of(capsule):
    """The structure in a capsule of either form."""
    name = _name(capsule)
    kind = ManagedVersioned if name.endswith(b"versioned") else Managed
    return kind.from_address(_pointer(capsule, name))


class Exporter:
    """Memory of the test's. `released` counts the calls of the deleter, `asked` keeps the calls."""

    def __init__(self, pointer, shape, dtype, device, *, versioned=True, flags=0, strides=None,
                 offset=0, on_export=None, rank=None):  # fmt: skip
        self.released = 0
        self.asked = []
        self.device = device
        self._versioned, self._on_export = versioned, on_export
        self._shape = None if shape is None else (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self._deleter = DELETER(self._release)
        element = Element(CODES[dtype.kind], dtype.itemsize * 8, 1)
        tensor = Tensor(pointer, Device(*device), len(shape) if rank is None else rank, element,
                        ctypes.cast(self._shape, ctypes.POINTER(ctypes.c_int64)),
                        ctypes.cast(self._strides, ctypes.POINTER(ctypes.c_int64)),
                        offset)  # fmt: skip
        if versioned:
            self._managed = ManagedVersioned(1, 0, None, self._deleter, flags, tensor)
        else:
            self._managed = Managed(tensor, None, self._deleter)

    def _release(self, _):
        self.released += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        if not self._versioned and "max_version" in options:
            raise TypeError("unexpected keyword max_version")
        self.asked.append(options)
        if self._on_export is not None:
            self._on_export(options.get("stream"))
        name = b"dltensor_versioned" if self._versioned else b"dltensor"
        self._name = ctypes.c_char_p(name)
        return _new(ctypes.addressof(self._managed), self._name, None)
