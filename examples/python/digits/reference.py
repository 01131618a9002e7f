# SPDX-License-Identifier: Apache-2.0
"""The plain solution: one matrix, one call to SciPy each for factor and solve."""

import kernels_cpu
import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

_ROWS = 1024  # of the matrix made at a time, to keep temporaries small


def solve(digits, gamma, ridge):
    """The weights by `cho_factor` and `cho_solve`."""
    images = digits.train
    matrix = np.empty((len(images), len(images)))
    # One thread: with two, and the OpenBLAS 0.3.30 of SciPy's wheels, the process was seen to crash
    # here in some runs with matrices of about 14,000 rows and more.
    with threadpool_limits(1, user_api="blas"):
        for start in range(0, len(images), _ROWS):
            part = slice(start, start + _ROWS)
            kernels_cpu.rbf(images[part], images, matrix[part], gamma)
        matrix.flat[:: len(images) + 1] = 1.0 + ridge
        # The matrix is its own transpose, and the transpose has the order LAPACK works in: no copy.
        factor = scipy.linalg.cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
        return scipy.linalg.cho_solve(factor, digits.targets, check_finite=False)


def residual(digits, weights, gamma, ridge):
    """Largest entry of |(K + ridge I) weights - targets|, with a few rows of K at a time."""
    images, worst = digits.train, 0.0
    for start in range(0, len(images), _ROWS):
        part = slice(start, start + _ROWS)
        rows = np.empty((len(images[part]), len(images)))
        kernels_cpu.rbf(images[part], images, rows, gamma)
        left = rows @ weights + ridge * weights[part]
        worst = max(worst, float(np.abs(left - digits.targets[part]).max()))
    return worst
