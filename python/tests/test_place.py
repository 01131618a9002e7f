# SPDX-License-Identifier: Apache-2.0
"""exec_place and data_place."""

import millstream as stf
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("place", "kind", "number"),
    [
        (stf.data_place.host(), "host", -1),
        (stf.data_place.managed(), "managed", -2),
        (stf.data_place.affine(), "affine", -3),
        (stf.data_place.device(3), "dev3", 3),
    ],
)
def test_data_place_tells_kind_and_number(place, kind, number):
    assert (place.kind, place.device_id) == (kind, number)


def test_exec_place_is_a_grid_of_one():
    place = stf.exec_place.device(1)
    assert (place.kind, place.dims, place.size) == ("device", (1,), 1)
    assert stf.exec_place.host().kind == "host"
    assert list(place) == [place]
    assert place.get_place(0) == place[0] == place
    assert place.affine_data_place == stf.data_place.device(1)


def test_member_past_the_end_is_an_index_error():
    with pytest.raises(IndexError, match="its index is 0"):
        stf.exec_place.host().get_place(1)


def test_equal_places_are_equal_and_hash_alike():
    assert stf.exec_place.device(1) == stf.exec_place.device(1) != stf.exec_place.device(0)
    assert len({stf.data_place.host(), stf.data_place.host(), stf.data_place.device(0)}) == 2
    assert stf.exec_place.host() != "host"


@pytest.mark.parametrize("make", [stf.exec_place.device, stf.data_place.device])
def test_negative_device_is_a_value_error_and_a_runtime_error(make):
    with pytest.raises(ValueError, match="device -1 does not exist"):
        make(-1)
    with pytest.raises(RuntimeError):
        make(-1)


@pytest.mark.parametrize("number", [1.0, "1", None])
def test_device_number_must_be_an_integer(number):
    with pytest.raises(TypeError, match="dev_id"):
        stf.exec_place.device(number)


def test_numpy_integers_are_device_numbers():
    assert stf.exec_place.device(np.int64(1)) == stf.exec_place.device(1)


def test_device_the_machine_lacks_is_a_value_error_at_start(ctx):
    data = ctx.logical_data(np.ones(4), name="x")
    with pytest.raises(ValueError, match=r"device 7.*\d devices?, numbered from 0"):
        ctx.task(stf.exec_place.device(7), data.rw()).start()
    with pytest.raises(ValueError, match=r"device 7"):
        ctx.submit(print, data.read(), place=stf.exec_place.device(7))
    with pytest.raises(ValueError, match=r"device 9"):
        ctx.task(data.read(stf.data_place.device(9))).start()
    assert ctx.wait(data).sum() == 4


@pytest.mark.usefixtures("two_devices")
def test_objects_can_stand_for_a_place(ctx):
    class Part:
        def _as_stf_exec_place(self):
            return stf.exec_place.device(1)

    seen = []
    ctx.submit(lambda: seen.append(stf.current_task().place), place=Part())
    with ctx.task(Part()):
        pass
    ctx.finalize()
    assert seen == [stf.exec_place.device(1)]


def test_object_that_gives_no_place_is_a_type_error(ctx):
    class Broken:
        def _as_stf_exec_place(self):
            return 3

    with pytest.raises(TypeError, match="gave int"):
        ctx.task(Broken())


def test_repr_can_be_evaluated():
    names = {"exec_place": stf.exec_place, "data_place": stf.data_place}
    for place in (stf.exec_place.host(), stf.data_place.device(2), stf.data_place.managed()):
        assert eval(repr(place), names) == place
