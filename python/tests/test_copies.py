# SPDX-License-Identifier: Apache-2.0
"""What `copy` and `pickle` make of objects of ours: something with meaning, or a TypeError."""

import copy
import pickle

import millstream as stf
import numpy as np
import pytest
from millstream import _core

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {each}": lambda x, each=each: pickle.dumps(x, each) for each in PROTOCOLS},
    **{f"reduce {each}": lambda x, each=each: x.__reduce_ex__(each) for each in PROTOCOLS},
}


def data_of(ctx):
    return ctx.logical_data(np.zeros(4))


def view_of(ctx):
    with ctx.task(data_of(ctx).rw()) as task:
        return task.get_arg_cai(0)


def running_task_of(ctx):
    found = []
    data = data_of(ctx)
    ctx.host_launch(data.rw(), fn=lambda _: found.append(stf.current_task()))
    ctx.wait(data)
    return found[0]


def graph_of(ctx):
    recorded = stf.context(use_graph=True, machine=ctx.machine)
    recorded.logical_data(np.zeros(4))
    return recorded.to_graph()


def device_array(_):
    return stf.DeviceArray(4, "f4", stf.data_place.device(0))


OWNERS = {
    stf.async_resources: lambda ctx: stf.async_resources(),
    stf.context: lambda ctx: ctx,
    stf.cuda_kernel: lambda ctx: ctx.cuda_kernel(data_of(ctx).rw()),
    stf.DeviceArray: device_array,
    stf.Future: lambda ctx: ctx.done(),
    stf.logical_data: data_of,
    stf.recorded_graph: graph_of,
    stf.running_task: running_task_of,
    stf.stf_cai: view_of,
    stf.task: lambda ctx: ctx.task(data_of(ctx).rw()),
    _core.pytorch_task: lambda ctx: _core.pytorch_task(ctx, data_of(ctx).rw()),
    _core.numba_task: lambda ctx: _core.numba_task(ctx, data_of(ctx).rw()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", OWNERS, ids=lambda kind: kind.__name__)
def test_what_owns_something_is_not_copied(ctx, kind, way):
    owner = OWNERS[kind](ctx)
    assert type(owner) is kind
    with pytest.raises(TypeError, match=r"cannot (pickle '|be copied or pickled)"):
        WAYS[way](owner)


SELF = {
    **{f"pickle {each}": lambda x, each=each: pickle.loads(pickle.dumps(x, each))
       for each in PROTOCOLS},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}  # fmt: skip
PLACES = [
    stf.exec_place.host(),
    stf.exec_place.device(3),
    stf.data_place.host(),
    stf.data_place.managed(),
    stf.data_place.affine(),
    stf.data_place.device(3),
]


@pytest.mark.parametrize("way", SELF)
@pytest.mark.parametrize("place", PLACES, ids=repr)
def test_places_are_values(place, way):
    same = SELF[way](place)
    assert same == place
    assert (type(same), repr(same), hash(same)) == (type(place), repr(place), hash(place))


@pytest.mark.parametrize("way", SELF)
@pytest.mark.parametrize("given", [(), ("host",), ("null",)], ids=repr)
def test_copies_of_a_machine_are_itself(given, way):
    machine = stf.machine(*given)
    assert SELF[way](machine) is machine
    chosen = stf.machine(*given, devices=2, seed=7)
    assert SELF[way](chosen) is chosen is not machine


@pytest.mark.parametrize("mode", [stf.AccessMode.READ, stf.AccessMode.WRITE, stf.AccessMode.RW])
def test_a_copy_of_an_access_names_the_same_datum(ctx, mode):
    data = data_of(ctx)
    access = stf.dep(data, mode, stf.data_place.device(1))
    same = copy.copy(access)
    assert list(same) == [data, mode, stf.data_place.device(1)]
    assert same.ld is data
    assert copy.copy(stf.dep(data, mode)).dplace is None
    for way in WAYS.keys() - {"copy"} - {each for each in WAYS if each.startswith("reduce")}:
        with pytest.raises(TypeError, match=r"cannot pickle '.*logical_data'"):
            WAYS[way](access)


def test_memory_of_a_device_array_has_one_owner():
    array = stf.DeviceArray.from_host(np.arange(4.0), stf.data_place.device(0))
    release = array._finalizer_ref
    with pytest.raises(stf.InvalidTypeError, match=r"DeviceArray.*from_host"):
        copy.copy(array[1:])
    part = array[:]
    del array
    assert release.alive
    assert part.copy_to_host().tolist() == [0, 1, 2, 3]


@pytest.mark.host_devices
def test_copies_of_an_array_of_checker_mode_outlive_its_task(machine):
    with stf.context(machine=machine, check=True) as ctx:
        data = ctx.logical_data(np.arange(3.0))
        with ctx.task(data.read()) as task:
            array = task[0]
            copies = [copy.copy(array), copy.deepcopy(array), pickle.loads(pickle.dumps(array))]
    for each in copies:
        assert each.tolist() == [0, 1, 2]
