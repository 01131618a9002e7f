# SPDX-License-Identifier: Apache-2.0
"""AccessMode, dep and the functions that make deps."""

import enum

import millstream as stf
import numpy as np
import pytest


def test_access_modes_are_flags():
    assert issubclass(stf.AccessMode, enum.IntFlag)
    assert [int(mode) for mode in (stf.AccessMode.NONE, stf.AccessMode.READ)] == [0, 1]
    assert stf.AccessMode.READ | stf.AccessMode.WRITE == stf.AccessMode.RW == 3


def test_dep_tells_its_three_parts(ctx):
    data, place = ctx.token(), stf.data_place.device(1)
    dep = data.rw(place)
    assert dep.ld is data
    assert dep.get_ld() is data
    assert dep.mode is stf.AccessMode.RW
    ld, mode, dplace = dep
    assert (ld, mode, dplace) == (data, stf.AccessMode.RW, place)
    assert data.read().dplace is None
    assert "read" in repr(data.read())


@pytest.mark.parametrize(
    ("function", "mode"), [(stf.read, "READ"), (stf.write, "WRITE"), (stf.rw, "RW")]
)
def test_functions_make_deps(ctx, function, mode):
    data = ctx.token()
    assert function(data).ld is data
    assert function(data).mode == stf.AccessMode[mode]


def test_dep_takes_any_integer_mode(ctx):
    data = ctx.logical_data(np.zeros(2))
    with ctx.task(stf.exec_place.host(), stf.dep(data, 3)) as (x,):
        x += 1
    with ctx.task(stf.exec_place.host(), stf.dep(data, stf.AccessMode.READ, None)) as (x,):
        assert x.tolist() == [1, 1]


@pytest.mark.parametrize(("mode", "error"), [("rw", TypeError), (7, ValueError), (-1, ValueError)])
def test_bad_mode_is_refused(ctx, mode, error):
    with pytest.raises(error, match="mode"):
        stf.dep(ctx.token(), mode)


def test_mode_none_is_refused_by_the_task(ctx):
    with pytest.raises(ValueError, match="NONE"):
        ctx.task(stf.dep(ctx.token(), 0))


def test_free_functions_do_not_get_around_read_only(ctx):
    source = np.ones(2)
    source.flags.writeable = False
    data = ctx.logical_data(source, name="fixed")
    with pytest.raises(ValueError, match="writes 'fixed', which is read-only"):
        ctx.task(stf.write(data))
    assert source.tolist() == [1, 1]
