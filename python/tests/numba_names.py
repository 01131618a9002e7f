# SPDX-License-Identifier: Apache-2.0
"""Makes numba-cuda 0.30 importable with NumPy 2.5, which lacks two names that it mentions.

For tests and benchmarks only: call `add` before numba is imported.
"""

import numpy as np


def _in1d(values, among, assume_unique=False, invert=False):
    return np.isin(np.ravel(values), among, assume_unique=assume_unique, invert=invert)


def add():
    """Defines what NumPy no longer has; what it has stays as it is."""
    for name, function in (("row_stack", np.vstack), ("in1d", _in1d)):
        if not hasattr(np, name):
            setattr(np, name, function)
