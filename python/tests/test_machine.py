# SPDX-License-Identifier: Apache-2.0
"""machine, CudaStream and synchronize."""

import millstream as stf
import numpy as np
import pytest


def test_equal_arguments_give_one_object():
    assert stf.machine("host", devices=3) is stf.machine("host", devices=3)
    assert stf.machine() is stf.machine(None)
    assert stf.machine("host", devices=3) is not stf.machine("host", devices=2)


def test_properties_open_the_machine():
    machine = stf.machine("host", devices=3)
    assert (machine.name, machine.device_count) == ("host", 3)
    assert "host_memory" in machine.capabilities
    assert machine.call_counts == {}


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'hst' is unknown; choose among .*'host'.*'null'"):
        stf.machine("hst")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"devices": 0}, ValueError),
        ({"devices": -1}, ValueError),
        ({"devices": 65}, ValueError),
        ({"devices": 2.0}, TypeError),
        ({"seed": -1}, ValueError),
        ({"seed": "1"}, TypeError),
    ],
)
def test_bad_option_is_refused(options, error):
    with pytest.raises(error, match=next(iter(options)) + "|devices"):
        stf.machine("host", **options)


@pytest.mark.parametrize("count", [0, 65, 100])
def test_device_count_has_one_limit(count):
    text = rf"cannot have {count} devices; choose 1 to 64, or leave the number out for the default"
    with pytest.raises(ValueError, match=text):
        stf.machine("host", devices=count)
    assert stf.machine("null", devices=64).device_count == 64


def test_name_must_be_a_str():
    with pytest.raises(TypeError, match="'name'"):
        stf.machine(3)


def test_environment_chooses_the_default(run_clean):
    program = """
        import millstream as stf
        with stf.context() as ctx:
            print(ctx.machine.name, ctx.machine.device_count)
    """
    assert run_clean(program, MILLSTREAM_MACHINE="null").startswith("null")
    assert run_clean(program, MILLSTREAM_MACHINE="host", MILLSTREAM_HOST_DEVICES="5") == "host 5\n"


def test_context_tells_its_machine(ctx, machine, host):
    assert ctx.machine is machine
    assert repr(host) == "machine('host', devices=2)"


def test_null_machine_counts_calls(null_ctx):
    before = null_ctx.machine.call_counts
    data = null_ctx.logical_data_empty((4,))
    with null_ctx.task(data.write()):
        pass
    after = null_ctx.machine.call_counts
    assert sum(after.values()) > sum(before.values())


def test_fence_and_synchronize(ctx):
    seen = []
    ctx.host_launch(fn=seen.append, args=(1,))
    stream = ctx.fence()
    assert type(stream) is int
    assert stream != 0
    stf.synchronize(stream)
    assert seen == [1]


@pytest.mark.host_devices  # streams of a GPU do not wait for host functions
def test_fence_does_not_wait_for_host_functions(ctx, gate):
    seen = []
    ctx.host_launch(fn=gate.hold)
    ctx.host_launch(fn=seen.append, args=(1,))
    stream = ctx.fence()
    assert seen == []
    gate.open()
    stf.synchronize(stream)
    assert seen == [1]


def test_synchronize_refuses_what_is_no_stream():
    with pytest.raises(ValueError, match="stream"):
        stf.synchronize(2**63)
    with pytest.raises(TypeError):
        stf.synchronize("1")
    with pytest.raises(ValueError, match="out of range"):
        stf.synchronize(-1)


@pytest.mark.host_devices  # on CUDA, contexts of other tests may have been on the default stream
def test_synchronize_refuses_the_default_stream_where_there_is_none():
    with pytest.raises(ValueError, match="stream 0 does not exist"):
        stf.synchronize(None)


def test_cuda_stream_is_an_int_with_the_protocol():
    stream = stf.CudaStream(0x20)
    assert isinstance(stream, int)
    assert stream == 32
    assert stream.__cuda_stream__() == (0, 32)
    assert type(stream.ptr) is int
    assert repr(stream) == "CudaStream(0x20)"


@pytest.mark.parametrize("answer", [None, (0,), (1, 5), (0, "5")])
def test_broken_stream_protocol_is_a_type_error(answer):
    class Stream:
        def __cuda_stream__(self):
            return answer

    with pytest.raises(TypeError, match="__cuda_stream__"):
        stf.synchronize(Stream())


def test_task_stream_can_be_waited_for(ctx):
    with ctx.task(ctx.logical_data(np.ones(2)).rw()) as task:
        stream = task.stream_ptr()
    assert isinstance(stream, stf.CudaStream)
    assert stream != 0
    stf.synchronize(stream)
