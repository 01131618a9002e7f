# SPDX-License-Identifier: Apache-2.0
"""Numba: arguments of tasks as device arrays, and kernels that are launched as tasks::

    from millstream.interop.numba import jit
    from numba import cuda

    @jit
    def axpy(a, x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = a * x[i] + y[i]

    axpy[grid, block](2.0, x.read(), y.rw())

Numba is imported at the first use of a function, never before. Device arrays and streams are made
once for each address and handle.

On host machines arguments are NumPy arrays, and kernels run in Numba's simulator: set
``NUMBA_ENABLE_CUDASIM=1`` before Numba is imported. It writes back every array that it is given,
so that it gets a copy of data that are only read. It can run one kernel at a time: launches by
`jit` wait for one another, and those by hand from several threads need a lock of the program's.
Without the simulator the arrays suit `numba.njit`.
"""

from __future__ import annotations

import functools
import sys
import threading

from millstream._errors import InvalidTypeError, UsageError
from millstream.interop._task_scope import fail_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, NoReturn

    import millstream
    from millstream._core import numba_task as numba_task

__all__ = [
    "external_stream",
    "get_arg_numba",
    "jit",
    "numba_arguments",
    "numba_task",
    "stf_kernel_decorator",
]

# Both hold plain descriptions, no memory: what is at an address is known from the key. A program
# with more arrays than this makes some anew.
_MOST_ARRAYS = 4096
_MOST_LAUNCHERS = 256
_arrays: dict[tuple[object, ...], Any] = {}
_streams: dict[int, Any] = {}

# Stands for the array of a dep among the arguments of a kernel.
_ARRAY = object()

# Re-entered by a kernel that launches others.
_one_launch = threading.RLock()


def _import_numba_cuda() -> Any:
    try:
        from numba import cuda  # type: ignore[import-not-found, unused-ignore]
    except ImportError as missing:
        raise _not_installed(missing) from missing
    return cuda


def _import_numba() -> Any:
    try:
        import numba
    except ImportError as missing:
        raise _not_installed(missing) from missing
    return numba


def _not_installed(missing: ImportError) -> ImportError:
    return ImportError(
        f"millstream.interop.numba needs Numba, which cannot be imported ({missing}); "
        "install it, for example with 'pip install numba-cuda[cu13]'",
        name="numba",
    )


# Its modules are imported either way.
def _simulated() -> bool:
    config = getattr(sys.modules.get("numba.cuda"), "config", None)
    return bool(getattr(config, "ENABLE_CUDASIM", False))


# --- arrays


def _to_array(view: Any) -> Any:
    try:
        key = view._key
    except AttributeError:  # no view of ours
        return _import_numba_cuda().from_cuda_array_interface(view, owner=None, sync=False)
    if key is None:
        return _to_host_array(view)
    known = _arrays.get(key)
    return known if known is not None else _make_array(view, key)


# No synchronisation: the stream of the task is ordered behind the producers, and waiting for it
# would be an error while it is captured.
def _make_array(view: Any, key: tuple[object, ...]) -> Any:
    made = _import_numba_cuda().from_cuda_array_interface(view, owner=None, sync=False)
    if len(_arrays) >= _MOST_ARRAYS:
        _arrays.clear()
    _arrays[key] = made
    return made


def _to_host_array(view: Any) -> Any:
    _import_numba()
    import numpy as np

    array = np.asarray(view)
    return array.copy() if view.readonly and _simulated() else array


def get_arg_numba(task: millstream.task | millstream.running_task, index: int) -> Any:
    """Dependency `index` (tokens counted) of a started task as an array for Numba.

    It has the shape and the element type of the datum, shares its memory and is valid until the
    task ends: a device array on GPUs, which Numba does not synchronise; a NumPy array in host
    memory, read-only for `read` accesses (with the simulator: a copy of those). In a function that
    was given to `context.submit`, `task` is ``millstream.current_task()``.

    IndexError past the list, RuntimeError for a token or when the task is not open, ImportError
    without Numba.
    """
    return _to_array(task.get_arg_cai(index))


def numba_arguments(task: millstream.task | millstream.running_task) -> Any:
    """All dependencies but tokens as by `get_arg_numba`: None, one array, or a tuple of arrays.

    In a function that was given to `context.submit`, `task` is ``millstream.current_task()``.
    """
    arrays = _arrays_of(task)
    if not arrays:
        return None
    return arrays if len(arrays) > 1 else arrays[0]


def _arrays_of(task: Any) -> tuple[Any, ...]:
    described = getattr(task, "_described", None)
    known: tuple[Any, ...] | None = None if described is None else described(_to_array)
    if known is not None:
        return known
    views = task.args_cai()
    if views is None:
        return ()
    return (
        tuple([_to_array(each) for each in views]) if type(views) is tuple else (_to_array(views),)
    )


def external_stream(stream: int | millstream.CudaStream) -> Any:
    """What a kernel of Numba is configured with for `stream`, e.g. ``task.stream_ptr()``.

    `numba.cuda.external_stream`, made once for each handle; with the simulator, which has no
    streams, the number itself. ImportError without Numba.
    """
    known = _streams.get(stream)
    if known is not None:
        return known
    number, cuda = int(stream), _import_numba_cuda()
    if _simulated():
        return number
    made = _streams[number] = cuda.external_stream(number)
    return made


# --- tasks


class _block_of_others:
    """The block of `numba_task` around the task of a context that is not ours."""

    __slots__ = ("_task",)

    def __init__(self, task: Any) -> None:
        self._task = task

    def __enter__(self) -> tuple[tuple[Any, ...], millstream.CudaStream]:
        task = self._task
        task.start()
        try:
            return _arrays_of(task), task.stream_ptr()
        except BaseException as failure:
            fail_task(task, type(failure), failure, failure.__traceback__)
            raise

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is None:
            self._task.end()
        else:
            fail_task(self._task, exc_type, exc, traceback)


# --- kernels


def _read_configuration(kernel: Any, configuration: Any) -> tuple[Any, Any, Any, Any]:
    """Grid, block, place and context of ``kernel[configuration]``; None where one is missing."""
    from millstream import context, exec_place

    if not isinstance(configuration, (tuple, list)) or not 2 <= len(configuration) <= 4:
        raise InvalidTypeError(
            f"kernel '{kernel.__name__}' cannot be configured with {configuration!r}; "
            "write kernel[grid, block], kernel[grid, block, exec_place] or "
            "kernel[grid, block, exec_place, context]"
        )
    grid, block, place, ctx = (*configuration, None, None)[:4]
    for value, wanted in ((place, exec_place), (ctx, context)):
        if value is not None and not isinstance(value, wanted):
            raise InvalidTypeError(
                f"kernel '{kernel.__name__}' got a {type(value).__name__} where it takes "
                f"a {wanted.__name__}; pass one, or None"
            )
    return grid, block, place, ctx


# The compiled module does this for contexts of ours on GPUs.
def _launch(
    kernel: stf_kernel_decorator,
    configuration: tuple[Any, Any, Any, Any],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> None:
    """Launches the kernel as a task; its positional deps become arrays."""
    from millstream import dep

    grid, block, place, ctx = configuration
    deps = [each for each in args if isinstance(each, dep)]
    if ctx is None:
        ctx = deps[0].get_ld().borrow_ctx_handle() if deps else _refuse(kernel)
    compiled = kernel._get_compiled_kernel()
    # Not the deps: data that the program drops are let go when their last task is submitted.
    args = tuple([_ARRAY if isinstance(each, dep) else each for each in args])
    if getattr(ctx, "_records_calls", False):
        call = functools.partial(_call, compiled, (grid, block), args, options)
        _record(kernel, ctx, place, deps, call)
        return
    parts = deps if place is None else [place, *deps]
    with ctx.task(*parts, symbol=kernel.__name__) as task:
        arrays = _arrays_of(task)
        if len(arrays) < len(deps):  # a token, which is refused here
            arrays = tuple([_to_array(task.get_arg_cai(i)) for i in range(len(deps))])
        stream, device = task._where()
        if device is not None:
            launcher = _configure(kernel, compiled, (grid, block, stream))
            launcher(*_values_of(args, arrays), **options)
        else:
            _call(compiled, (grid, block), args, options, arrays)


def _values_of(args: tuple[Any, ...], arrays: tuple[Any, ...]) -> list[Any]:
    """The arguments, with arrays in their places."""
    left = iter(arrays)
    return [next(left) if each is _ARRAY else each for each in args]


def _call(
    compiled: Any,
    shape: tuple[Any, Any],
    args: tuple[Any, ...],
    options: dict[str, Any],
    arrays: tuple[Any, ...],
) -> None:
    """Runs a kernel on a host machine, where the number of a queue is no stream for Numba."""
    values = _values_of(args, arrays)
    # The simulator keeps the grid of the kernel that is running in a variable of its module.
    with _one_launch:
        compiled[shape](*values, **options)


def _record(
    kernel: stf_kernel_decorator,
    ctx: millstream.context,
    place: millstream.exec_place | None,
    deps: list[millstream.dep],
    call: Callable[[tuple[Any, ...]], None],
) -> None:
    """Makes the kernel a node that calls it: a function like those of `context.submit`."""
    from millstream import current_task

    for index, each in enumerate(deps):
        if each.get_ld().shape is None:
            raise UsageError(
                f"dependency {index} of kernel '{kernel.__name__}' is a token, which has no "
                "array; pass data with content"
            )

    def body(*_: Any) -> None:
        call(_arrays_of(current_task()))

    ctx.submit(body, *deps, place=place, symbol=kernel.__name__)


def _refuse(kernel: stf_kernel_decorator) -> NoReturn:
    raise InvalidTypeError(
        f"No STF context could be inferred for kernel '{kernel.__name__}': it got no "
        "dep; pass one such as data.read(), or write kernel[grid, block, None, context]"
    )


def _configure(kernel: stf_kernel_decorator, compiled: Any, how: tuple[Any, Any, Any]) -> Any:
    """What Numba gives for a grid, a block and a stream; kept by the kernel."""
    grid, block, stream = how
    launch = compiled[grid, block, external_stream(stream)]
    if len(kernel._launchers) >= _MOST_LAUNCHERS:
        kernel._launchers.clear()
    kernel._launchers[how] = launch
    return launch


class stf_kernel_decorator:
    """What `jit` gives: a kernel to be configured with ``[...]``, compiled at its first launch."""

    __name__: str

    def __init__(
        self, function: Callable[..., Any], jit_args: tuple[Any, ...], jit_kwargs: dict[str, Any]
    ) -> None:
        self._function = function
        self._jit_args = jit_args
        self._jit_kwargs = jit_kwargs
        self._compiled: Any = None
        # What Numba gives for a grid, a block and a stream; it keeps some itself, but finding one
        # there takes longer.
        self._launchers: dict[tuple[Any, ...], Any] = {}
        from millstream._core import configured_kernel

        self._configured: Any = configured_kernel
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"stf_kernel_decorator({self.__name__!r})"

    def _get_compiled_kernel(self) -> Any:
        if self._compiled is None:
            made = _import_numba_cuda().jit(*self._jit_args, **self._jit_kwargs)
            self._compiled = made(self._function)
        return self._compiled

    def __getitem__(self, configuration: Any) -> Any:
        """The kernel with ``grid, block`` and, if wanted, an `exec_place` and a `context`."""
        return self._configured(self, configuration)

    def __call__(self, *args: Any, **options: Any) -> None:
        """RuntimeError: a launch needs a grid and a block."""
        raise UsageError(
            f"kernel '{self.__name__}' was called without a launch configuration; "
            "write kernel[grid, block](...)"
        )


def jit(*jit_args: Any, **jit_kwargs: Any) -> Any:
    """`numba.cuda.jit` for kernels that are launched as tasks; takes its arguments, or none.

    ``kernel[grid, block](...)`` submits one task: each positional argument that is a dep, such as
    ``x.read()``, becomes the array of that datum, and the others are passed as they are. The task
    has the name of the function. ``kernel[grid, block, exec_place, context]`` says where it runs
    and in which context; either may be None. The context is that of the first dep unless named.
    The launch returns at once on GPUs. On host machines it returns when the kernel has run; with
    ``context(use_graph=True)`` it is recorded there, as a function that is given to
    `context.submit`, and what the kernel raises comes from the next `wait` or `finalize`.

    A launch raises TypeError where no context is known, what `context.task` and `task.start` raise,
    RuntimeError for a token, and ImportError without Numba.
    """
    if len(jit_args) == 1 and not jit_kwargs and callable(jit_args[0]):
        return stf_kernel_decorator(jit_args[0], (), {})
    return lambda function: stf_kernel_decorator(function, jit_args, jit_kwargs)


# Compiled, and loaded at its first use like the rest of the module. Checkers would take this for
# any name at all.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name != "numba_task":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from millstream._core import numba_task

        globals()[name] = numba_task
        return numba_task
