# SPDX-License-Identifier: Apache-2.0
"""The beginning and the end of a task around a block, for the adapters."""

from __future__ import annotations

from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


def end_task(
    task: Any,
    exc_type: type[BaseException] | None,
    exc: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    """Ends `task`; after an exception it has failed, and nothing is raised, so that one goes on."""
    if exc_type is None:
        task.end()
    else:
        fail_task(task, exc_type, exc, traceback)


def fail_task(
    task: Any,
    exc_type: type[BaseException],
    exc: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    """The task has failed. Objects with no more than `start` and `end` are ended."""
    leave = getattr(task, "__exit__", None)
    with suppress(Exception):
        if leave is not None:
            leave(exc_type, exc, traceback)
        else:
            task.end()
