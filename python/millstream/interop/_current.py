# SPDX-License-Identifier: Apache-2.0
"""Runs a body with its stream current in every framework that the program has imported."""

from __future__ import annotations

import importlib
import sys
from contextlib import ExitStack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Module of the framework, and its adapter: `current_stream(framework, stream, device)` gives a
# context manager, or None where the framework cannot be used with that device.
_ADAPTERS = {
    "cupy": "millstream.interop.cupy",
    "torch": "millstream.interop.pytorch",
}
# Without one of these in sys.modules, nobody calls `call`.
FRAMEWORKS = tuple(_ADAPTERS)


def call(stream: int, device: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, with `stream` of GPU `device` current."""
    with ExitStack() as scopes:
        for name, adapter in _ADAPTERS.items():
            framework = sys.modules.get(name)
            if framework is None:
                continue
            scope = importlib.import_module(adapter).current_stream(framework, stream, device)
            if scope is not None:
                scopes.enter_context(scope)
        return function(*arguments)
