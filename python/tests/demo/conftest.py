# SPDX-License-Identifier: Apache-2.0
"""The main job's modules lie beside its main.py, not in a package."""

import random
import sys
from pathlib import Path

import pytest

for package in ("numpy", "scipy", "sklearn", "PIL", "threadpoolctl"):
    pytest.importorskip(package)

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "python" / "digits"
if not FOLDER.is_dir():
    pytest.skip("the examples are not part of this installation", allow_module_level=True)
sys.path.insert(0, str(FOLDER))


class ShuffledContext:
    """Keeps tasks until `wait`, then runs them in a random order that the accesses allow.

    Arrays are full of NaN before the first task writes them, so that a missing dependency shows.
    """

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.waiting = []
        self.places = []

    def logical_data(self, array, name=None):
        return Access(array, "rw")

    def logical_data_empty(self, shape, dtype, name=None):
        import numpy as np

        return Access(np.full(shape, np.nan, dtype), "rw")

    def submit(self, function, *accesses, args=(), place=None, symbol=None):
        self.places.append(place)
        self.waiting.append((function, accesses, args))

    def wait(self, datum):
        while self.waiting:
            ready = [i for i in range(len(self.waiting)) if self._is_ready(i)]
            function, accesses, args = self.waiting.pop(self.dice.choice(ready))
            function(*(access.array for access in accesses), *args)
        return datum.array

    def _is_ready(self, index):
        mine = self.waiting[index][1]
        return not any(
            (a.array is b.array and b.mode != "read") or (a.array is b.array and a.mode != "read")
            for _, others, _ in self.waiting[:index]
            for a in others
            for b in mine
        )


class Access:
    def __init__(self, array, mode):
        self.array, self.mode = array, mode

    def read(self):
        return Access(self.array, "read")

    def write(self):
        return Access(self.array, "write")

    def rw(self):
        return Access(self.array, "rw")


@pytest.fixture
def shuffled():
    return ShuffledContext


@pytest.fixture(scope="session")
def digits():
    from data import load

    return load(samples=200, augment=0, seed=3)
