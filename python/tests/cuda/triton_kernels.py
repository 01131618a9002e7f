# SPDX-License-Identifier: Apache-2.0
"""Kernels of Triton; import this only where it is installed. Triton reads their source."""

import triton
import triton.language as tl


@triton.jit
def axpy(y, x, a, n, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    was = tl.load(y + at, mask=inside)
    tl.store(y + at, was + a * tl.load(x + at, mask=inside), mask=inside)
