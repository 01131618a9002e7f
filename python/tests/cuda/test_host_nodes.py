# SPDX-License-Identifier: Apache-2.0
"""Host functions that are declared not to use the device: nodes of a recording."""

import gc
import math
import threading
import weakref

import millstream as stf
import numpy as np
import pytest
from cuda_driver import DeviceArray

COUNT = 32


@pytest.fixture
def ctx(machine):
    context = stf.context(use_graph=True, machine=machine)
    yield context
    context.finalize()


def scale(ctx, driver, data, factor):
    with ctx.cuda_kernel(data.rw(), symbol="scale") as k:
        k.launch(driver._function("test_scale_f64"), 1, 64, [k.get_arg(0), float(factor), COUNT])


def test_it_is_a_node_between_kernels(any_order, ctx, driver):
    values = np.ones(COUNT)
    data = ctx.logical_data(values)
    threads = []

    def add_one(x):
        threads.append(threading.get_ident())
        x += 1.0

    scale(ctx, driver, data, 2)
    ctx.host_launch(data.rw(), fn=add_one, uses_device=False)
    scale(ctx, driver, data, 10)
    assert ctx.wait(data).tolist() == [30.0] * COUNT
    assert threads[0] != threading.get_ident()
    stats = ctx.stats()
    assert (stats["stages"], stats["stage_breaks"]) == (1, 0)


def test_submit_takes_the_declaration_too(ctx):
    data = ctx.logical_data_zeros((COUNT,))
    ctx.submit(lambda x: np.add(x, 3.0, out=x), data.rw(), place=stf.exec_place.host(),
               uses_device=False)  # fmt: skip
    assert ctx.wait(data).tolist() == [3.0] * COUNT
    assert ctx.stats()["stage_breaks"] == 0
    with pytest.raises(ValueError, match="declared not to use the device"):
        ctx.submit(print, data.rw(), place=stf.exec_place.device(0), uses_device=False)


def test_the_same_shape_again_is_an_update(any_order, ctx, driver):
    data = ctx.logical_data_zeros((COUNT,))
    seen = []
    ctx.fence()
    for step in range(6):
        ctx.host_launch(data.rw(), fn=lambda x, by: np.add(x, by, out=x), args=(step,),
                        uses_device=False)  # fmt: skip
        scale(ctx, driver, data, 2)
        ctx.host_launch(data.read(), fn=lambda x: seen.append(x[0]), uses_device=False)
        ctx.fence()
    ctx.finalize()
    wanted, value = [], 0.0
    for step in range(6):
        value = (value + step) * 2
        wanted.append(value)
    assert seen == wanted
    stats = ctx.stats()
    assert (stats["stage_breaks"], stats["refused_updates"]) == (0, 0)
    assert stats["misses"] == dict.fromkeys(
        ["evicted", "too large", "policy", "busy", "refused", "lost"], 0
    ) | {"new shape": stats["instantiations"]}
    assert stats["instantiations"] + stats["updates"] == stats["stages"]


def test_an_exception_poisons_and_leaves_arrays_alone(any_order, ctx, driver):
    values = np.ones(COUNT)
    source, target = ctx.logical_data_zeros((COUNT,)), ctx.logical_data(values)

    def fail(x):
        raise KeyError("boom")

    ctx.host_launch(source.rw(), fn=fail, uses_device=False, symbol="bad")
    with ctx.cuda_kernel(source.read(), target.rw()) as k:
        k.launch(driver._function("test_axpy_f64"), 1, 64,
                 [k.get_arg(1), k.get_arg(0), 1.0, COUNT])  # fmt: skip
    with pytest.raises(KeyError, match="boom"):
        ctx.finalize()
    assert values.tolist() == [1.0] * COUNT


@pytest.mark.parametrize("call", ["wait", "fence", "get", "submit", "data"])
def test_calls_in_it_name_the_declaration(ctx, call):
    data, other = ctx.logical_data_zeros((COUNT,)), ctx.logical_data_zeros((COUNT,))
    calls = {
        "wait": lambda: ctx.wait(other),
        "fence": ctx.fence,
        "get": lambda: other.get().result(),
        "submit": lambda: ctx.submit(print, other.read()),
        "data": lambda: ctx.logical_data(np.ones(3)),
    }
    ctx.host_launch(data.rw(), fn=lambda x: calls[call](), uses_device=False, symbol="wrong")
    with pytest.raises(stf.UsageError, match=r"'wrong'.*uses_device"):
        ctx.finalize()


def test_what_it_holds_goes_with_its_stage(ctx):
    class Held:
        pass

    held = Held()
    watch = weakref.ref(held)
    data = ctx.logical_data_zeros((COUNT,))
    ctx.host_launch(data.rw(), fn=lambda x, kept: None, args=(held,), uses_device=False)
    del held
    assert watch() is not None
    ctx.wait(data)
    gc.collect()
    assert watch() is None


def test_a_graph_that_is_given_out_has_it(any_order, machine, driver):
    values = np.ones(COUNT)
    ctx = stf.context(use_graph=True, machine=machine)
    data = ctx.logical_data(values)
    scale(ctx, driver, data, 2)
    ctx.host_launch(data.rw(), fn=lambda x: np.add(x, 1.0, out=x), uses_device=False)
    scale(ctx, driver, data, 2)
    graph = ctx.to_graph()
    for wanted in (6.0, 26.0):
        stf.synchronize(graph.launch())
        assert values.tolist() == [wanted] * COUNT
    graph.check_errors()


def test_without_the_declaration_to_graph_names_it(machine):
    ctx = stf.context(use_graph=True, machine=machine)
    data = ctx.logical_data_zeros((COUNT,))
    ctx.host_launch(data.rw(), fn=lambda x: None, symbol="plain")
    with pytest.raises(stf.UsageError, match=r"'plain'.*uses_device"):
        ctx.to_graph()
    ctx.finalize()


def test_an_immediate_context_ignores_it(machine):
    with stf.context(machine=machine) as ctx:
        data = ctx.logical_data(np.zeros(COUNT))
        ctx.host_launch(data.rw(), fn=lambda x: np.add(x, ctx.token() is not None, out=x),
                        uses_device=False)  # fmt: skip
        assert ctx.wait(data).tolist() == [1.0] * COUNT


CUTS = {
    "every second": np.s_[::2, 1::2, 3],
    "reversed": np.s_[::-1, ::-3, 2],
    "three axes": np.s_[1:, ::2, ::-2],
    "no axis packed": np.s_[::3, ::3, ::3],
}


def scale_all(ctx, driver, data, factor):
    with ctx.cuda_kernel(data.rw(), symbol="scale") as k:
        k.launch(driver._function("test_scale_f64"), 1, 64,
                 [k.get_arg(0), float(factor), math.prod(data.shape)])  # fmt: skip


def number(x, by):
    """Element i, in the order of the elements, becomes larger by `by + i`."""
    x += by + np.arange(x.size, dtype=x.dtype).reshape(x.shape)


def take_turns(ctx, driver, data, seen):
    """Two stages of host functions and kernels on one array."""
    for step in range(2):
        scale_all(ctx, driver, data, 2)
        ctx.host_launch(data.read(), fn=lambda x: seen.append(x.tolist()), uses_device=False)
        ctx.host_launch(data.rw(), fn=number, args=(10 + step,), uses_device=False)
        scale_all(ctx, driver, data, 3)
        ctx.fence()
    ctx.finalize()
    stats = ctx.stats()
    assert (stats["stages"], stats["stage_breaks"]) == (2, 0)


def what_turns_give(values):
    """The same in NumPy, in place; what the reading functions have to see."""
    seen = []
    for step in range(2):
        values *= 2
        seen.append(values.tolist())
        number(values, 10 + step)
        values *= 3
    return seen


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_arrays_that_are_not_contiguous(any_order, machine, driver, cut):
    values = np.arange(5.0 * 7 * 6).reshape(5, 7, 6)
    twin = values.copy()
    ctx = stf.context(use_graph=True, machine=machine)
    seen = []
    take_turns(ctx, driver, ctx.logical_data(values[cut], copy="pack"), seen)
    assert seen == what_turns_give(twin[cut])
    assert values.tolist() == twin.tolist()


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_device_arrays_that_are_not_contiguous(any_order, machine, driver, cut):
    twin = np.arange(5.0 * 7 * 6).reshape(5, 7, 6)
    whole = DeviceArray(driver, twin)
    part = twin[cut]
    offset = part.__array_interface__["data"][0] - twin.__array_interface__["data"][0]

    class Part:
        __cuda_array_interface__ = {  # noqa: RUF012
            "version": 3, "shape": part.shape, "typestr": twin.dtype.str, "stream": None,
            "data": (whole.pointer + offset, False), "strides": part.strides,
        }  # fmt: skip

    ctx = stf.context(use_graph=True, machine=machine)
    seen = []
    take_turns(ctx, driver, ctx.logical_data(Part(), copy="pack"), seen)
    assert seen == what_turns_give(part)
    assert whole.get().tolist() == twin.tolist()
