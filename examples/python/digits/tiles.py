# SPDX-License-Identifier: Apache-2.0
"""How rows are cut into tiles, and which device owns which tile."""

import math


def cut(rows, tile):
    """Slices of `tile` rows; the last one may be shorter."""
    return [slice(start, min(start + tile, rows)) for start in range(0, rows, tile)]


def good_tile(rows, devices, largest):
    """Six tiles of rows for two devices, nine for three; from 128 (BLAS is slow below) on."""
    return min(max(64 * round(rows / (3 * devices) / 64), 128), largest)


class BlockCyclic:
    """Owner-computes map: tiles are dealt out over a grid of devices, as square as possible.

    The grid is at least as tall as it is wide, so that the tiles of one panel (a column of the
    matrix), which all become ready at the same time, lie on as many devices as possible.
    """

    def __init__(self, devices):
        self.columns = max(q for q in range(1, math.isqrt(devices) + 1) if devices % q == 0)
        self.rows = devices // self.columns

    def owner(self, row, column):
        return row % self.rows + (column % self.columns) * self.rows

    def __str__(self):
        return f"{self.rows} x {self.columns}"
