# SPDX-License-Identifier: Apache-2.0
"""One colour per task name, the same in every picture of one recording."""

from __future__ import annotations

from collections.abc import Iterable

# Light enough for black text, and told apart by people who see few colours.
PALETTE = (
    "#a6cee3", "#fdbf6f", "#b2df8a", "#fb9a99", "#cab2d6", "#ffe28a",
    "#8dd3c7", "#f4cae4", "#d9d9d9", "#e6c8a0", "#9fc5f8", "#c9e2b3",
)  # fmt: skip
COPY = "#7a7a7a"
FAILED = "#e31a1c"
SKIPPED = "#ffffff"


def by_name(names: Iterable[str]) -> dict[str, str]:
    """In order of first appearance; colours repeat after a dozen names."""
    table: dict[str, str] = {}
    for name in names:
        if name not in table:
            table[name] = PALETTE[len(table) % len(PALETTE)]
    return table
