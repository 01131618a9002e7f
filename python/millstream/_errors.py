# SPDX-License-Identifier: Apache-2.0
"""Exceptions and warnings of Millstream.

Every error derives from `Error` and from the closest built-in exception, so that
``except ValueError`` works as well as ``except millstream.Error``.
"""

from __future__ import annotations

import sys
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

if sys.version_info < (3, 11):
    from exceptiongroup import (  # type: ignore[import-not-found, unused-ignore]
        BaseExceptionGroup,
    )


# In the dictionary of the exception, so that it is copied and pickled like any attribute.
def _detail(name: str, meaning: str) -> Any:
    return property(
        lambda self: self.__dict__.get(name),
        lambda self, value: self.__dict__.__setitem__(name, value),
        doc=meaning,
    )


class Error(Exception):
    """Base of everything Millstream raises on its own account.

    The text reads ``<who> <failed how>; <way out>``. What is known besides the text is in the
    attributes; `None` means unknown.
    """

    task: str | None = _detail("task", 'Name of the task, or ``"task 12"`` where it has none.')
    data: str | None = _detail("data", "Names of the data, e.g. ``\"'x', 'y'\"``.")
    file: str | None = _detail("file", "Source file of the line of the user's program meant.")
    line: int | None = _detail("line", "Number of that line, from 1.")


class UsageError(Error, RuntimeError):
    """A rule of the interface was broken; the text names it."""


class InvalidValueError(Error, ValueError):
    """An argument has a value that is not allowed."""


class InvalidTypeError(Error, TypeError):
    """An argument has a type that is not allowed."""


class InvalidPlaceError(InvalidValueError, RuntimeError):
    """A place cannot exist, for example a negative device number."""


class LayoutError(InvalidValueError, BufferError):
    """A buffer is not C-contiguous."""


class NumberRangeError(InvalidValueError, OverflowError):
    """A number is too small or too large for what it is given for."""


class OutOfRangeError(Error, IndexError):
    """An index is past the end of a list of dependencies or places."""


class MissingDataError(Error, KeyError):
    """A task was asked for data that is not among its dependencies."""

    def __str__(self) -> str:
        """The text without the quotes that `KeyError` adds."""
        return str(self.args[0]) if self.args else ""


class OutOfMemoryError(Error, MemoryError):
    """A place has no room for the data of a task. The context goes on."""


class NotWrittenError(Error, RuntimeError):
    """Data was read that nothing has written."""


class PoisonedError(Error, RuntimeError):
    """Data was needed that a failed task was to write; ``__cause__`` is what that task raised."""


class TaskFailedError(Error, RuntimeError):
    """A task failed, and its own exception cannot be had."""


class DeadlockError(Error, RuntimeError):
    """Going on would wait for the caller itself."""


class DeviceError(Error, RuntimeError):
    """An operation of a device failed. The context goes on."""


class DeviceLostError(DeviceError):
    """A device failed for good; every later call says the same."""


class UnsupportedError(Error, RuntimeError):
    """This machine cannot do that."""


class ExportError(UnsupportedError, BufferError):
    """A view cannot be handed to another library in the way it asked for."""


class UnavailableError(Error, RuntimeError):
    """The machine cannot be opened or used here, for example in a forked child."""


class UnimplementedError(Error, NotImplementedError):
    """The name exists; what it does comes with a later version."""


class InternalError(Error, RuntimeError):
    """A fault of Millstream; please report it with the text."""


class TaskFailedWarning(RuntimeWarning):
    """A task failed in a context on a caller's stream, and nobody called `check_errors`."""


class ContractWarning(RuntimeWarning):
    """Checker mode found that a body breaks its contract, for example keeps a view.

    Turned into an error by the warning filter, it fails the task.
    """


def _add_note(exception: BaseException, note: str) -> None:
    """`exception.add_note(note)`, on Python 3.10 too."""
    if sys.version_info >= (3, 11):
        exception.add_note(note)
    else:
        vars(exception)["__notes__"] = [*getattr(exception, "__notes__", []), note]


def _renew_note(exception: BaseException, note: str) -> None:
    """The same for a note on a failed task, in place of an earlier one on the same.

    A future has added it if nobody asked that for the exception.
    """
    start = note.partition(" failed")[0] + " failed"
    notes = [each for each in getattr(exception, "__notes__", []) if not each.startswith(start)]
    vars(exception)["__notes__"] = [*notes, note]


def _combine(failures: list[tuple[BaseException, str]]) -> BaseException:
    """One exception for all failures: the only one with its note, or a group in the order given."""
    for exception, note in failures:
        _renew_note(exception, note)
    if len(failures) == 1:
        return failures[0][0]
    group: BaseException = BaseExceptionGroup(
        f"{len(failures)} tasks failed", [each for each, _ in failures]
    )
    return group


def _attach(exception: BaseException, other: BaseException) -> None:
    """Notes on `exception` that `other` was found while leaving the `with` block it broke."""
    group = other.exceptions if isinstance(other, BaseExceptionGroup) else (other,)
    for each in group:
        lines = [f"millstream: also {type(each).__name__}: {each}", *getattr(each, "__notes__", [])]
        _add_note(exception, "\n  ".join(lines))


def _warn_of_unseen(exception: BaseException, task: str) -> None:
    """Warns that `task` failed with `exception`, which nothing has raised."""
    warnings.warn(
        f"{task} failed with {type(exception).__name__}: {exception}; call check_errors() once the "
        "stream of the context has been waited for",
        TaskFailedWarning,
        stacklevel=1,
        source=exception,
    )
