# SPDX-License-Identifier: Apache-2.0
"""PyTorch: arguments of tasks as tensors, and the stream of a task as the current one::

    from millstream.interop.pytorch import pytorch_task

    with pytorch_task(ctx, x.read(), y.rw()) as (x_tensor, y_tensor):
        y_tensor[:] = x_tensor * 2

PyTorch is imported at the first use of a function, never before.

What a block allocates comes from PyTorch's pool of the task's stream, so a temporary may be dropped
at once. A tensor of another stream that a block only uses must live until the task has run, or be
told of: ``tensor.record_stream(torch.cuda.current_stream())``. For tensors in ``args=`` of
`context.submit` that is done here.

In a context with `use_graph` a block is captured. Temporaries are the same there, as bodies of one
stream run one after the other. Tensors in ``args=`` live until the graph has run; do not call
`record_stream` in such a block, nor `torch.cuda.empty_cache` before `fence`: it takes memory away
that the graph will use. What cannot be captured (the first call of a library, random numbers,
`item`, copies to the host) fails the task.
"""

from __future__ import annotations

from contextlib import suppress

from millstream.interop._task_scope import fail_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    import millstream
    from millstream._core import pytorch_task as pytorch_task
    from millstream.interop._current import Switch

__all__ = ["pytorch_task", "tensor_arg", "tensor_arguments"]

# Kinds of memory by the numbers of DLPack.
_CPU, _CUDA = 1, 2

# By stream and device. Streams are pooled, so that there are few.
_switches: dict[Any, Switch] = {}


def _import_torch() -> Any:
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
    except ImportError as missing:
        raise ImportError(
            "millstream.interop.pytorch needs PyTorch, which cannot be imported; "
            "install it, for example with 'pip install torch'",
            name="torch",
        ) from missing
    return torch


# --- streams


class _scope_switch:
    """A stream made current by `torch.cuda.stream`."""

    __slots__ = ("_is_captured", "_scope", "_stream", "_tensor")

    def __init__(self, torch: Any, stream: Any) -> None:
        self._scope: Callable[[Any], Any] = torch.cuda.stream
        self._stream = stream
        self._tensor = getattr(torch, "Tensor", ())
        self._is_captured = _capture_question(torch)

    def enter(self, arguments: tuple[Any, ...] = ()) -> Any:
        scope = self._scope(self._stream)
        scope.__enter__()
        if arguments:
            _tell_allocator(arguments, self._tensor, self._stream, self._is_captured)
        return scope

    def leave(self, before: Any) -> None:
        before.__exit__(None, None, None)


# The caller may drop them once the body has returned, before the GPU has run it. What a recorded
# body uses is kept until its graph has run, and an event of a captured stream may not be asked.
def _tell_allocator(
    arguments: tuple[Any, ...], tensor_class: Any, stream: Any, is_captured: Callable[[], bool]
) -> None:
    tensors = [each for each in arguments if isinstance(each, tensor_class) and each.is_cuda]
    if tensors and not is_captured():
        for each in tensors:
            each.record_stream(stream)


def _capture_question(torch: Any) -> Callable[[], bool]:
    """Whether the current stream is captured; PyTorch has known that since it knows captures."""
    asked: Callable[[], bool] | None = getattr(torch.cuda, "is_current_stream_capturing", None)
    return asked or _never


def _never() -> bool:
    return False


def stream_switch(torch: Any, stream: int, device: int) -> Switch | None:
    """The switch to `stream`, whose `device` is current; None where PyTorch has no such GPU."""
    known = _switches.get((stream, device))
    if known is not None:
        return known
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_available() or device >= cuda.device_count():
        return None
    made = _switches[stream, device] = _make_switch(torch, stream, device)
    return made


def _make_switch(torch: Any, stream: int, device: int) -> Switch:
    wrapped = torch.cuda.ExternalStream(stream, device=device)
    inner = getattr(torch, "_C", None)
    # Before stream_id, these calls took one packed number.
    if hasattr(inner, "_cuda_setStream") and hasattr(wrapped, "stream_id"):
        torch.cuda.init()  # as `torch.cuda.stream` does
        return _direct_switch(torch, wrapped, device)
    return _scope_switch(torch, wrapped)


def _direct_switch(torch: Any, stream: Any, device: int) -> Switch:
    """A stream made current by the two calls that `torch.cuda.stream` ends in.

    These are not documented, but Python code of PyTorch's own is all they were made for; around a
    small kernel, the documented scope costs more than the kernel. Where they are missing,
    `_scope_switch` is used.
    """
    from millstream._core import stream_switch as switch

    tensor, is_captured = torch.Tensor, _capture_question(torch)
    return switch(
        torch._C._cuda_getCurrentStream,
        torch._C._cuda_setStream,
        device,
        (stream.stream_id, stream.device_index, stream.device_type),
        lambda arguments: _tell_allocator(arguments, tensor, stream, is_captured),
    )


def _find_switch(torch: Any, where: tuple[int, int | None]) -> Switch | None:
    """The switch to the stream of a started task, which said where it is.

    None on machines without GPU streams.
    """
    stream, device = where  # it is current from here on
    if device is None:
        return None
    cuda = torch.cuda
    # Whether it is available is asked of the driver each time.
    if not cuda.is_initialized() and not cuda.is_available():
        return None
    return stream_switch(torch, int(stream), device if device >= 0 else cuda.current_device())


# --- tensors


def _to_tensor(torch: Any, view: Any) -> Any:
    """A tensor over the memory of `view`, which it keeps alive."""
    try:
        kind = view.__dlpack_device__()[0]
    except AttributeError:  # no view of ours
        return torch.as_tensor(view)
    if kind == _CUDA:
        return torch.from_dlpack(view.__dlpack__(stream=-1))
    if kind == _CPU:
        # Memory that is only read needs a version that PyTorch asks for by itself.
        return torch.from_dlpack(view if view.readonly else view.__dlpack__())
    return torch.as_tensor(view, device="cuda")  # page-locked or managed


def tensor_arg(task: millstream.task | millstream.running_task, index: int) -> Any:
    """Dependency `index` (tokens counted) of a started task as a `torch.Tensor`.

    It has the shape and the element type of the datum, shares its memory (on the GPU of the task,
    on host machines in host memory) and is valid until the task ends. PyTorch knows no read-only
    tensors: do not write to one of a `read` access. To be used with the stream of the task current.
    In a function that was given to `context.submit`, `task` is ``millstream.current_task()``.

    IndexError past the list, RuntimeError for a token or when the task is not open, BufferError for
    elements that PyTorch does not have, ImportError without PyTorch.
    """
    return _to_tensor(_import_torch(), task.get_arg_cai(index))


def tensor_arguments(task: millstream.task | millstream.running_task) -> Any:
    """All dependencies but tokens as by `tensor_arg`: None, one tensor, or a tuple of tensors.

    In a function that was given to `context.submit`, `task` is ``millstream.current_task()``.
    """
    tensors = _tensors_of(_import_torch(), task)
    return tensors if tensors is None or len(tensors) > 1 else tensors[0]


def _tensors_of(torch: Any, task: Any) -> tuple[Any, ...] | None:
    """A tuple with a tensor for each dependency but tokens, or None where there are none."""
    described = getattr(task, "_described", None)
    known = None if described is None else described(_describe)
    if known is None:
        return _new_tensors(torch, task)
    return tuple([each.detach() for each in known]) or None


def _new_tensors(torch: Any, task: Any) -> tuple[Any, ...] | None:
    capsules = getattr(task, "_capsules", None)
    found = None if capsules is None else capsules()
    if found is not None:
        # What `torch.from_dlpack` ends in; its own questions cost as much again.
        read = getattr(torch._C, "_from_dlpack", None) or torch.from_dlpack
        return tuple(map(read, found)) or None
    views = task.args_cai()
    if views is None:
        return None
    return tuple([_to_tensor(torch, each) for each in _as_tuple(views)])


# Made once for each instance and never handed out: a block gets a `detach` of it, so that the next
# does not see what this one did to shape or gradient. Finding both costs less than a new tensor.
def _describe(view: Any) -> Any:
    """A tensor over device memory that keeps neither the memory nor `view` alive."""
    torch = _import_torch()
    with torch.inference_mode(False):
        return torch.from_dlpack(view._capsule())


def _as_tuple(views: Any) -> tuple[Any, ...]:
    return views if isinstance(views, tuple) else (views,)


def _switch_of(torch: Any, task: Any) -> Switch | None:
    where = getattr(task, "_where", None)
    if where is None:  # no task of ours
        return _scope_switch(torch, torch.cuda.ExternalStream(task.stream_ptr()))
    return _find_switch(torch, where())


class _block_of_others:
    """The block of `pytorch_task` around the task of a context that is not ours."""

    __slots__ = ("_before", "_switch", "_task")

    def __init__(self, task: Any) -> None:
        self._task = task
        self._switch: Switch | None = None

    def __enter__(self) -> tuple[Any, ...] | None:
        torch = _import_torch()
        task = self._task
        task.start()
        try:
            switch = _switch_of(torch, task)
            if switch is not None:
                self._before = switch.enter(())
                self._switch = switch
            return _tensors_of(torch, task)
        except BaseException as failure:
            self._fail(type(failure), failure, failure.__traceback__)
            raise

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is not None:
            self._fail(exc_type, exc, traceback)
            return
        if self._switch is not None:
            try:
                self._switch.leave(self._before)
            except BaseException as failure:
                fail_task(self._task, type(failure), failure, failure.__traceback__)
                raise
        self._task.end()

    def _fail(
        self,
        exc_type: type[BaseException],
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._leave_stream_quietly()
        finally:
            fail_task(self._task, exc_type, exc, traceback)

    def _leave_stream_quietly(self) -> None:
        if self._switch is not None:
            with suppress(Exception):
                self._switch.leave(self._before)


# Compiled, and loaded at its first use like the rest of the module. Checkers would take this for
# any name at all.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name != "pytorch_task":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from millstream._core import pytorch_task

        globals()[name] = pytorch_task
        return pytorch_task
