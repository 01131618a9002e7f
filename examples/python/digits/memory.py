# SPDX-License-Identifier: Apache-2.0
"""How much memory a job takes, and how much there is."""

import resource

GIB = 2.0**30


def tiles_bytes(rows, tile, layout):
    """Upper bound for the lower tiles and the copies of the panel tiles on other devices.

    A tile of a panel is read by the devices of its row and of its column of the grid.
    """
    lower = 8 * rows * (rows + tile) // 2
    holders = min(layout.rows * layout.columns, layout.rows + layout.columns - 1)
    return lower * holders


def matrix_bytes(rows):
    """The full matrix that the plain SciPy solution works in."""
    return 8 * rows * rows


def available_bytes():
    """What the system can give without swapping; None where it does not say."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def peak_bytes():
    """The most this process has used so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
