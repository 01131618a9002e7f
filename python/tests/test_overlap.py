# SPDX-License-Identifier: Apache-2.0
"""Data that have elements in common: refused, shared reading, or one order."""

import random

import millstream as stf
import numpy as np
import pytest

DEVICES = [stf.exec_place.device(0), stf.exec_place.device(1)]
SEEDS = range(12)


def overlapping(ctx, array, **options):
    return ctx.logical_data(array, copy="pack", allow_overlap=True, **options)


def add(value):
    return lambda x: np.add(x, value, out=x)


def scale(value):
    return lambda x: np.multiply(x, value, out=x)


def frozen(array):
    array = array.view()
    array.flags.writeable = False
    return array


SHARING = {
    "halves": (slice(0, 60), slice(40, 100)),
    "inside": (slice(0, 100), slice(3, 5)),
    "steps": (slice(0, 100, 2), slice(0, 100, 3)),
    "a step and one": (slice(0, 100, 2), slice(50, 51)),
    "the same, reversed": (slice(0, 100), slice(None, None, -1)),
    "reversed steps": (slice(99, None, -3), slice(0, 100, 5)),
}
APART = {
    "even and odd": (slice(0, 100, 2), slice(1, 100, 2)),
    "between": (slice(0, 100, 10), slice(1, 10)),
    "neighbours": (slice(0, 50), slice(50, 100)),
    "reversed odd": (slice(99, None, -2), slice(0, 100, 2)),
    "thirds": (slice(0, 100, 3), slice(1, 100, 3)),
}


@pytest.mark.fault("A31")
@pytest.mark.parametrize(("first", "second"), SHARING.values(), ids=SHARING.keys())
def test_common_elements_are_an_error_that_names_both(ctx, first, second):
    array = np.zeros(100)
    keep = ctx.logical_data(array[first], copy="pack", name="first")
    text = r"(?s)'second'.*overlaps.*'first'.*allow_overlap"
    with pytest.raises(ValueError, match=text):
        ctx.logical_data(array[second], copy="pack", name="second")
    del keep
    ctx.logical_data(array[second], copy="pack", name="second")


@pytest.mark.parametrize(("first", "second"), APART.values(), ids=APART.keys())
@pytest.mark.host_devices
def test_elements_between_one_another_are_no_overlap(ctx, first, second):
    array = np.zeros(100)
    low = ctx.logical_data(array[first], copy="pack")
    high = ctx.logical_data(array[second], copy="pack")
    for _ in range(3):
        ctx.submit(add(1), low.rw(), place=DEVICES[0])
        ctx.submit(add(2), high.rw(), place=DEVICES[1])
    ctx.finalize()
    expected = np.zeros(100)
    expected[first] = 3
    expected[second] = 6
    assert array.tolist() == expected.tolist()


def test_columns_of_a_matrix_are_apart(ctx):
    array = np.zeros((40, 30))
    columns = [ctx.logical_data(array[:, i], copy="pack") for i in range(30)]
    with pytest.raises(ValueError, match="overlaps"):
        ctx.logical_data(array[5], name="row")
    del columns[7]
    ctx.logical_data(array[:, 7], copy="pack")


def test_quadrants_of_a_matrix_are_apart(ctx):
    array = np.zeros((20, 20))
    quadrants = [array[:10, :10], array[:10, 10:], array[10:, :10], array[10:, 10:]]
    kept = [ctx.logical_data(each, copy="pack") for each in quadrants]
    with pytest.raises(ValueError, match="overlaps"):
        ctx.logical_data(array[9:11, 9:11], copy="pack")
    assert len(kept) == 4


@pytest.mark.host_devices
def test_same_elements_in_the_same_order_are_one_datum(ctx):
    array = np.zeros((4, 6))
    first = ctx.logical_data(array[::2, ::3], copy="pack")
    second = ctx.logical_data(array[0:3:2, 0:6:3], copy="pack")
    ctx.submit(add(1), first.rw(), place=DEVICES[0])
    ctx.submit(scale(10), second.rw(), place=DEVICES[1])
    ctx.submit(add(1), first.rw(), place=DEVICES[0])
    ctx.finalize()
    assert array.sum() == 11 * 4


def test_readers_may_overlap(ctx):
    array = np.arange(20.0)
    fixed = frozen(array)
    kept = [ctx.logical_data(fixed[i::2], copy="pack") for i in range(4)]
    for i, each in enumerate(kept):
        assert ctx.wait(each).tolist() == array[i::2].tolist()
    with pytest.raises(ValueError, match="overlaps"):
        ctx.logical_data(array, name="writer")


def test_read_only_views_of_the_same_elements_are_one_datum(ctx):
    array = np.zeros(10)
    first = overlapping(ctx, array, name="writable")
    views = [overlapping(ctx, frozen(array), name=name) for name in ("a", "b")]
    assert [each.readonly for each in (first, *views)] == [False, True, True]
    assert [each.symbol for each in views] == ["a", "a"]
    assert overlapping(ctx, array).symbol == "writable"


@pytest.mark.host_devices
def test_writes_are_seen_in_a_read_only_view(ctx):
    array = np.zeros(10)
    data = ctx.logical_data(array)
    view = overlapping(ctx, frozen(array))
    assert view.readonly
    seen = []
    for i in range(3):
        ctx.submit(add(1), data.rw(), place=DEVICES[i % 2])
        ctx.submit(lambda x: seen.append(x.tolist()), view.read(), place=DEVICES[1])
    ctx.finalize()
    assert seen == [[1] * 10, [2] * 10, [3] * 10]
    assert array.tolist() == [3] * 10


@pytest.mark.parametrize(("first", "second"), SHARING.values(), ids=SHARING.keys())
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.host_devices
def test_allowed_overlap_has_one_order(first, second, seed):
    array = np.zeros(100)
    twin = array.copy()
    with stf.context(machine=stf.machine("host", devices=2, seed=seed)) as ctx:
        low, high = overlapping(ctx, array[first]), overlapping(ctx, array[second])
        for i in range(6):
            ctx.submit(add(1), low.rw(), place=DEVICES[i % 2])
            ctx.submit(scale(3), high.rw(), place=DEVICES[i // 2 % 2])
            twin[first] += 1
            twin[second] *= 3
            if i == 3:
                assert ctx.wait(low).tolist() == twin[first].tolist()
    assert array.tolist() == twin.tolist()


@pytest.mark.fault("A31")
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.host_devices
def test_random_programs_on_overlapping_data_are_as_in_sequence(seed):
    rng = random.Random(seed)
    array = np.arange(48.0).reshape(6, 8)
    twin = array.copy()
    cuts = [
        np.s_[:3], np.s_[2:5, ::2], np.s_[:, 3], np.s_[::-1, 1:4], np.s_[4:, ::-1], np.s_[5],
    ]  # fmt: skip
    chosen = rng.sample(cuts, 4)
    with stf.context(machine=stf.machine("host", devices=2, seed=seed)) as ctx:
        data = [overlapping(ctx, array[cut]) for cut in chosen]
        for step in range(30):
            i = rng.randrange(4)
            cut, place = chosen[i], rng.choice([*DEVICES, stf.exec_place.host()])
            what = rng.randrange(6)
            if what == 0:
                ctx.submit(lambda x, v=step: x.fill(v), data[i].write(), place=place)
                twin[cut] = step
            elif what == 1:
                assert ctx.wait(data[i]).tolist() == twin[cut].tolist()
            elif what == 2:
                with ctx.task(place, data[i].rw()) as (x,):
                    np.add(x, step, out=x)
                twin[cut] += step
            elif what == 3:
                data[i] = None  # queues the write-back
                data[i] = overlapping(ctx, array[cut])
            elif what == 4:
                expected = twin[cut].copy()
                ctx.submit(np.testing.assert_array_equal, data[i].read(), args=(expected,),
                           place=place)  # fmt: skip
            else:
                ctx.submit(lambda x: np.multiply(x, 0.5, out=x), data[i].rw(), place=place)
                twin[cut] *= 0.5
    assert array.tolist() == twin.tolist()


@pytest.mark.host_devices
def test_one_task_cannot_write_one_and_use_the_other(ctx):
    array = np.zeros(10)
    a, b = ctx.logical_data(array[:6], name="a"), overlapping(ctx, array[4:], name="b")
    for deps in ([a.rw(), b.read()], [a.read(), b.write()], [a.rw(), b.rw()]):
        with pytest.raises(ValueError, match=r"(?s)'[ab]'.*'[ab]'.*elements in common"):
            ctx.submit(print, *deps)
    sums = []
    ctx.submit(add(1), a.rw(), place=DEVICES[1])
    ctx.submit(lambda x, y: sums.append((x.sum(), y.sum())), a.read(), b.read())
    ctx.finalize()
    assert sums == [(6, 2)]
    assert array.tolist() == [1] * 6 + [0] * 4


@pytest.mark.host_devices
def test_open_tasks_on_overlapping_data_exclude_each_other(ctx):
    array = np.zeros(10)
    a, b = ctx.logical_data(array[:6], name="a"), overlapping(ctx, array[4:], name="b")
    with ctx.task(a.rw()):
        with pytest.raises(RuntimeError, match="end that task first"):
            ctx.task(b.rw()).start()
    with ctx.task(a.read()) as (x,), ctx.task(b.read()) as (y,):
        assert (x.sum(), y.sum()) == (0, 0)


@pytest.mark.host_devices
def test_failure_spoils_what_overlaps_until_it_is_written_anew(ctx):
    array = np.zeros(10)
    a, b = ctx.logical_data(array[:6], name="a"), overlapping(ctx, array[4:], name="b")

    def fail(x):
        x[:] = 9
        raise ZeroDivisionError

    ctx.submit(fail, a.rw(), place=DEVICES[1])
    ran = []
    ctx.submit(ran.append, b.read())
    with pytest.raises(ZeroDivisionError):
        ctx.wait(b)
    assert ran == []
    with ctx.task(b.write()) as (x,):
        x[:] = 2
    assert ctx.wait(b).tolist() == [2] * 6
    with pytest.raises(stf.PoisonedError):
        ctx.wait(a)  # four of its elements are still spoiled
    with ctx.task(a.write()) as (x,):
        x[:] = 1
    assert ctx.wait(b).tolist() == [1, 1, 2, 2, 2, 2]
    assert ctx.wait(a).tolist() == [1] * 6
    ctx.finalize()
    assert array.tolist() == [1] * 6 + [2] * 4


@pytest.mark.host_devices
def test_data_registered_after_a_failure_is_known_are_spoiled(ctx):
    array = np.zeros(10)
    a = ctx.logical_data(array[:6])

    def fail(x):
        raise ZeroDivisionError

    ctx.submit(fail, a.rw())
    with pytest.raises(ZeroDivisionError):
        ctx.wait(a)
    b = overlapping(ctx, array[4:])
    with pytest.raises(stf.PoisonedError):
        ctx.wait(b)


@pytest.mark.host_devices
def test_data_registered_before_the_failure_is_known_are_spoiled(ctx, gate):
    array = np.zeros(10)
    a = ctx.logical_data(array[:6])

    def fail(x):
        gate.hold()
        raise ZeroDivisionError

    ctx.submit(fail, a.rw())
    b, ran = overlapping(ctx, array[4:]), []
    ctx.submit(ran.append, b.read(), place=DEVICES[1])
    gate.open()
    with pytest.raises(ZeroDivisionError):
        ctx.finalize()
    assert ran == []


@pytest.mark.host_devices
def test_dropping_one_keeps_what_it_wrote(ctx):
    array = np.zeros(10)
    a, b = ctx.logical_data(array[:6]), overlapping(ctx, array[4:])
    ctx.submit(add(5), a.rw(), place=DEVICES[1])
    del a
    ctx.submit(add(1), b.rw(), place=DEVICES[0])
    assert ctx.wait(b).tolist() == [6, 6, 1, 1, 1, 1]
    ctx.finalize()
    assert array.tolist() == [5] * 4 + [6, 6] + [1] * 4


@pytest.mark.host_devices
def test_futures_bring_what_others_wrote(ctx):
    array = np.zeros(10)
    a, b = overlapping(ctx, array[::2]), overlapping(ctx, array[4:])
    futures = []
    for i in range(3):
        ctx.submit(add(1), a.rw(), place=DEVICES[i % 2])
        futures.append(b.get())
        ctx.submit(scale(10), b.rw(), place=DEVICES[1])
    assert [each.result(timeout=60).tolist() for each in futures] == [
        [1, 0, 1, 0, 1, 0], [11, 0, 11, 0, 11, 0], [111, 0, 111, 0, 111, 0],
    ]  # fmt: skip
