# SPDX-License-Identifier: Apache-2.0
"""Runs a body with its stream current in every framework that the program has imported."""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Switch(Protocol):
        """Makes one stream current in one framework. Shared by threads, so it keeps no state."""

        def enter(self, arguments: tuple[Any, ...]) -> Any:
            """Makes it current for a body with these arguments; gives what `leave` takes."""

        def leave(self, before: Any) -> None:
            """Makes current what was so before."""


# Module of the framework, and its adapter: `stream_switch(framework, stream, device)` gives a
# switch, or None where the framework cannot be used with that device.
_ADAPTERS = {
    "cupy": "millstream.interop.cupy",
    "torch": "millstream.interop.pytorch",
}
# Without one of these in sys.modules, nobody calls `call`.
FRAMEWORKS = tuple(_ADAPTERS)

_found: dict[str, Callable[[Any, int, int], Switch | None]] = {}


def call(stream: int, device: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, with `stream` of GPU `device` current."""
    switches = []
    for name in FRAMEWORKS:
        framework = sys.modules.get(name)
        if framework is None:
            continue
        switch = (_found.get(name) or _find(name))(framework, stream, device)
        if switch is not None:
            switches.append(switch)
    return _call_within(switches, 0, function, arguments)


def _find(name: str) -> Callable[[Any, int, int], Switch | None]:
    found: Callable[[Any, int, int], Switch | None]
    found = _found[name] = importlib.import_module(_ADAPTERS[name]).stream_switch
    return found


# By hand and not with contextlib, whose ExitStack costs more than the whole task.
def _call_within(
    switches: list[Switch], index: int, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    if index == len(switches):
        return function(*arguments)
    before = switches[index].enter(arguments)
    try:
        return _call_within(switches, index + 1, function, arguments)
    finally:
        switches[index].leave(before)
