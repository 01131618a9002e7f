# SPDX-License-Identifier: Apache-2.0
"""Access modes."""

from __future__ import annotations

import enum


class AccessMode(enum.IntFlag):
    """What a task does with a datum.

    Attributes:
        NONE: nothing; no task takes it.
        READ: needs a valid copy; readers may overlap.
        WRITE: overwrites the whole content; no copy is fetched.
        RW: reads and modifies.
    """

    NONE = 0
    READ = 1
    WRITE = 2
    RW = 3
