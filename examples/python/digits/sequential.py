# SPDX-License-Identifier: Apache-2.0
"""The same flow without a runtime: a stand-in for the context that runs each task at once.

It has the few methods of `millstream.context` that the flow uses, so that one definition of the
job serves both, and the comparison is between the same calls on the same tiles. On a GPU "at once"
is in order on one stream.
"""


class Datum:
    """A tile; every access is the tile itself."""

    def __init__(self, tile):
        self.tile = tile

    def read(self):
        return self.tile

    write = rw = read


class SequentialContext:
    """`kernels` is the module whose functions are called; it makes the tiles."""

    def __init__(self, kernels):
        self.kernels = kernels

    def logical_data(self, array, name=None):
        return Datum(self.kernels.from_host(array))

    def logical_data_empty(self, shape, dtype, name=None):
        return Datum(self.kernels.empty(shape))

    def submit(self, function, *tiles, args=(), place=None, symbol=None):
        function(*tiles, *args)

    def wait(self, datum):
        return self.kernels.to_host(datum.tile)
