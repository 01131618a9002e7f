# SPDX-License-Identifier: Apache-2.0
"""More than 2^31 elements and 2^32 bytes. The pages of most of it are never touched."""

import millstream as stf
import numpy as np
import pytest

pytestmark = pytest.mark.slow
ON_HOST = stf.exec_place.host()
SIZES = [("u1", 2**31 + 16), ("u1", 2**32 + 16), ("f4", 2**30 + 8), ("c16", 2**28 + 3)]


def untouched(count, dtype):
    try:
        return np.zeros(count, dtype)  # from the system, which makes pages as they are needed
    except MemoryError:
        pytest.skip("the system gives no such address range")


@pytest.mark.fault("A37")
@pytest.mark.parametrize(("dtype", "count"), SIZES)
def test_large_arrays_are_used_where_they_are(ctx, dtype, count):
    source = untouched(count, dtype)
    data = ctx.logical_data(source)
    assert (data.shape, data.dtype) == ((count,), np.dtype(dtype))

    def mark(x):
        assert x.shape == (count,)
        x[count // 2] = x[-1] = 3

    ctx.host_launch(data.rw(), fn=mark)
    with ctx.task(ON_HOST, data.read()) as (x,):
        assert (x[count // 2], x[-1], x[-2]) == (3, 3, 0)
        assert x.nbytes == count * np.dtype(dtype).itemsize
    ctx.finalize()
    assert (source[count // 2], source[-1]) == (3, 3)


@pytest.mark.fault("A37")
@pytest.mark.parametrize(("dtype", "count"), SIZES)
def test_byte_counts_of_large_arrays_are_exact(null_ctx, dtype, count):
    source = untouched(count, dtype)
    data = null_ctx.logical_data(source)
    with null_ctx.task(data.rw()) as t:
        assert t.args_cai().shape == (count,)
    null_ctx.finalize()
    stats = null_ctx.stats()
    assert (stats["copies"], stats["copied_bytes"]) == (2, 2 * source.nbytes)


def test_last_element_of_a_large_array_overlaps(null_ctx):
    source = untouched(2**32 + 16, "u1")
    whole = null_ctx.logical_data(source[:-8], name="whole")
    null_ctx.logical_data(source[-8:])
    with pytest.raises(ValueError, match="overlaps the memory of 'whole'"):
        null_ctx.logical_data(source[-9:])
    assert whole.shape == (2**32 + 8,)


@pytest.mark.fault("A37")
@pytest.mark.host_devices
def test_strides_beyond_32_bits_are_packed(ctx):
    source = untouched(2**33 + 1, "u1")
    places = slice(None, None, 2**29)
    source[places] = np.arange(17)
    data = ctx.logical_data(source[places][::-1], copy="pack")
    ctx.submit(lambda x: np.add(x, 1, out=x), data.rw(), place=stf.exec_place.device(1))
    ctx.finalize()
    assert source[places].tolist() == list(range(1, 18))
    assert (source[1], source[2**32 + 1]) == (0, 0)


@pytest.mark.host_devices
def test_large_strided_arrays_that_interleave_are_apart(ctx):
    source = untouched(2**32, "u1")
    kept = [ctx.logical_data(source[i::2], copy="pack") for i in range(2)]
    with pytest.raises(ValueError, match="overlaps"):
        ctx.logical_data(source[2**31 + 5 :: 3], copy="pack")
    assert [each.shape for each in kept] == [(2**31,), (2**31,)]


def test_shapes_beyond_an_address_are_refused(ctx):
    with pytest.raises(ValueError, match="bytes"):
        ctx.logical_data_empty((2**40, 2**40))
