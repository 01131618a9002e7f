# SPDX-License-Identifier: Apache-2.0
"""The same flow without a runtime: a stand-in for the context that runs each task at once.

It has the few methods of `millstream.context` that the flow uses, so that one definition of the
job serves both, and the comparison is between the same calls on the same tiles.
"""

import numpy as np


class Datum:
    """An array; every access is the array itself."""

    def __init__(self, array):
        self.array = array

    def read(self):
        return self.array

    write = rw = read


class SequentialContext:
    def logical_data(self, array, name=None):
        return Datum(array)

    def logical_data_empty(self, shape, dtype, name=None):
        return Datum(np.empty(shape, dtype))

    def submit(self, function, *arrays, args=(), place=None, symbol=None):
        function(*arrays, *args)

    def wait(self, datum):
        return datum.array
