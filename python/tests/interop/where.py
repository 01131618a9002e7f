# SPDX-License-Identifier: Apache-2.0
"""Where the tests of the adapters run."""

import ctypes
import os


def _on_gpu():
    library = os.environ.get("MILLSTREAM_CUDA_DRIVER")
    if os.environ.get("MILLSTREAM_MACHINE") != "cuda" or not library:
        return False
    return not hasattr(ctypes.CDLL(library), "fake_cuda_seed")


# True with MILLSTREAM_MACHINE=cuda on a real driver.
ON_GPU = _on_gpu()
