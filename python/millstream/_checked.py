# SPDX-License-Identifier: Apache-2.0
"""Arrays of checker mode: they raise when they are used after their task.

What NumPy and Python ask the class about is checked: indexing, arithmetic, functions, methods and
attributes of arrays, copying, pickling. What takes the memory without asking is not: the buffer
protocol (``memoryview(a)``, ``numpy.frombuffer(a)``), ``numpy.asarray(a)`` and ``numpy.array(a)``,
which see any subclass as a plain array; and what was made of an array before its task ended, such
as ``a.flat`` or ``numpy.asarray(a)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from millstream._errors import UsageError

if TYPE_CHECKING:
    from millstream._core import view_lease


class checked_array(np.ndarray[Any, Any]):
    """A NumPy array over memory of a task. Its views are checked, too; its copies are plain.

    Every use that asks the class raises UsageError once the task has ended; see above.
    """

    _lease: view_lease | None
    _index: int

    def __array_finalize__(self, source: object) -> None:
        """A view has the lease of its source; what owns its memory has none."""
        owner = source if isinstance(source, checked_array) and not self.flags.owndata else None
        self._lease = getattr(owner, "_lease", None)
        self._index = getattr(owner, "_index", 0)

    def _check(self) -> None:
        if self._lease is not None and self._lease.over:
            raise UsageError(self._lease.message(self._index))

    def __getitem__(self, key: Any) -> Any:
        """An element or a view."""
        self._check()
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Writes elements."""
        self._check()
        super().__setitem__(key, value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Element-wise functions; the result is a plain array."""
        plain = [_plain(each) for each in inputs]
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(_plain(each) for each in out)
        result = getattr(ufunc, method)(*plain, **options)
        return out[0] if out is not None and len(out) == 1 else result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Functions of NumPy such as `numpy.dot`; the result is a plain array."""
        return function(*_plain_all(args), **_plain_all(kwargs))


def _checked_method(name: str) -> Any:
    def method(self: checked_array, *args: Any, **kwargs: Any) -> Any:
        self._check()
        return getattr(super(checked_array, self), name)(*args, **kwargs)

    method.__name__ = name
    method.__doc__ = getattr(np.ndarray, name).__doc__
    return method


_METHODS = (
    "__iter__ all any argmax argmin argsort astype byteswap clip copy cumprod cumsum diagonal dot "
    "fill flatten item max mean min nonzero partition prod put ravel repeat reshape round "
    "searchsorted sort std sum swapaxes take tobytes tofile tolist trace transpose var view "
    "__array__ __copy__ __deepcopy__ __dlpack__ __reduce__ __reduce_ex__ __float__ __int__ "
    "__complex__ __index__ __bool__ __contains__ __repr__ __str__ __format__"
)
for _name in _METHODS.split():
    setattr(checked_array, _name, _checked_method(_name))


def _checked_attribute(name: str) -> Any:
    plain = getattr(np.ndarray, name)

    def get(self: checked_array) -> Any:
        self._check()
        return plain.__get__(self)

    def put(self: checked_array, value: Any) -> None:
        self._check()
        plain.__set__(self, value)

    return property(get, put, doc=plain.__doc__)


# Those that lead to the elements; shape, dtype and the like stay readable.
_ATTRIBUTES = "T mT data flat real imag ctypes __array_interface__ __array_struct__"
for _name in _ATTRIBUTES.split():
    if hasattr(np.ndarray, _name):  # mT came with NumPy 2
        setattr(checked_array, _name, _checked_attribute(_name))


def _plain(what: Any) -> Any:
    if not isinstance(what, checked_array):
        return what
    what._check()
    return np.ndarray.view(what, np.ndarray)


def _plain_all(what: Any) -> Any:
    if isinstance(what, (list, tuple)):
        return type(what)(_plain_all(each) for each in what)
    if isinstance(what, dict):
        return {key: _plain_all(each) for key, each in what.items()}
    return _plain(what)


def guard(array: np.ndarray[Any, Any], lease: view_lease, index: int) -> checked_array:
    """`array`, checked against `lease`; `index` is that of the dependency."""
    made = np.ndarray.view(array, checked_array)
    made._lease, made._index = lease, index
    return made
