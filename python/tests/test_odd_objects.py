# SPDX-License-Identifier: Apache-2.0
"""Objects whose own code raises where we ask them something: that exception comes out."""

import millstream as stf
import numpy as np
import pytest


class OwnError(Exception):
    """Not one that a call of ours would be expected to raise."""


class Raises:
    """Raises in every special method that something asks for."""

    def __init__(self, what):
        self._what = what

    def _fail(self, *args, **options):
        raise self._what

    __index__ = __iter__ = __bool__ = __cuda_stream__ = __dlpack_device__ = __dlpack__ = _fail
    __repr__ = _as_stf_exec_place = _fail


class RaisesInProperties:
    def __init__(self, what):
        self._what = what

    @property
    def __cuda_array_interface__(self):
        raise self._what

    @property
    def __array_interface__(self):
        raise self._what

    @property
    def __dlpack__(self):
        raise self._what

    @property
    def __array__(self):
        raise self._what

    @property
    def _as_stf_exec_place(self):
        raise self._what


def uses(ctx, odd):
    with ctx.task(ctx.logical_data(np.zeros(2)).read()) as t:
        yield lambda: t.get_arg(odd)
        yield lambda: t.get_arg_cai(odd)
        yield lambda: t[odd]
    yield lambda: ctx.logical_data_empty(odd)
    yield lambda: ctx.logical_data_empty((2, odd))
    yield lambda: ctx.submit(print, args=odd)
    yield lambda: ctx.host_launch(fn=print, args=odd)
    yield lambda: stf.context(use_graph=odd)
    yield lambda: stf.context(check=odd)
    yield lambda: stf.context(stream=odd)
    yield lambda: stf.machine("host", devices=odd)
    yield lambda: stf.exec_place.device(odd)
    yield lambda: stf.synchronize(odd)
    yield lambda: ctx.task(odd)
    yield lambda: ctx.logical_data(odd)
    yield lambda: ctx.logical_data(np.zeros(2), allow_overlap=odd)
    yield lambda: stf.dlpack_export(None, odd, (1,), 0, 8, 0)
    yield lambda: stf.dlpack_export(None, 0, odd, 0, 8, 0)


@pytest.mark.parametrize("kind", [OwnError, KeyboardInterrupt, SystemExit, MemoryError])
def test_exceptions_of_special_methods_come_out(ctx, kind):
    raised = kind("of the user")
    for use in uses(ctx, Raises(raised)):
        with pytest.raises(kind) as caught:
            use()
        assert caught.value is raised


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_properties_that_end_the_program_do(ctx, kind):
    raised = kind("of the user")
    for use in (ctx.logical_data, ctx.task):
        with pytest.raises(kind) as caught:
            use(RaisesInProperties(raised))
        assert caught.value is raised


def test_properties_that_cannot_be_had_count_as_absent(ctx):
    odd = RaisesInProperties(OwnError())
    for use in (ctx.logical_data, ctx.task):
        with pytest.raises(TypeError):
            use(odd)
