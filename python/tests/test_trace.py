# SPDX-License-Identifier: Apache-2.0
"""What a tracing context keeps, and the objects made of it."""

import inspect

import millstream as stf
import numpy as np
import pytest
from millstream.viz import Graph, Trace


@pytest.fixture
def ctx(host):
    with stf.context(machine=host, trace=True) as context:
        yield context


def here():
    return inspect.currentframe().f_back.f_lineno


def test_without_trace_there_is_advice(null_ctx):
    for call in (null_ctx.graph, null_ctx.trace, null_ctx._trace_snapshot):
        with pytest.raises(RuntimeError, match=r"trace=True.*MILLSTREAM_TRACE_TASKS=1"):
            call()


def test_environment_switches_it_on(run_clean):
    program = """
        import millstream as stf
        with stf.context() as ctx:
            ctx.submit(int, symbol="only")
        print([node.name for node in ctx.graph().nodes])
    """
    assert run_clean(program, MILLSTREAM_TRACE_TASKS="1") == "['only']\n"


def test_snapshot_has_every_field(ctx):
    x = ctx.logical_data(np.zeros(4), name="x")
    ctx.submit(lambda a: None, x.rw(), symbol="first", place=stf.exec_place.device(1))
    line = here() - 1
    ctx.finalize()
    snapshot = ctx._trace_snapshot()
    (task,) = (node for node in snapshot["nodes"] if not node["is_copy"])
    assert (task["kind"], task["name"], task["how"]) == ("submit", "first", "done")
    assert (task["file"], task["line"]) == (__file__, line)
    assert (task["data"], task["modes"], task["place"]) == ([1], ["rw"], 1)
    assert 0 < task["submitted_ns"] <= task["began_ns"] <= task["ended_ns"]
    assert task["queue"] != 0
    assert snapshot["data"] == [{"id": 1, "name": "x", "bytes": 32}]
    assert snapshot["machine"]["name"] == "host"
    assert snapshot["machine"]["device_count"] == 2
    copies = [node for node in snapshot["nodes"] if node["is_copy"]]
    assert [(c["reason"], c["from"], c["place"], c["bytes"]) for c in copies] == [
        ("coherence", -1, 1, 32),
        ("write_back", 1, -1, 32),
    ]


def test_line_is_that_of_the_call(ctx):
    token = ctx.token()
    lines = []
    with ctx.task(token.rw()):
        lines.append(here() - 1)
    ctx.host_launch(
        token.rw(),
        fn=print,
        args=("",),
    )
    lines.append(here() - 5)
    for _ in range(2):
        ctx.submit(int, token.read())
    lines += [here() - 1] * 2
    ctx.finalize()
    assert [node.line for node in ctx.graph().nodes] == lines


def test_lines_of_recorded_tasks_are_those_of_their_calls(machine):
    """In both pictures, for what was launched and for what is yet to be."""
    ctx = stf.context(use_graph=True, trace=True, machine=machine)
    x = ctx.logical_data(np.zeros(4), name="x")
    lines = []
    for _ in range(2):
        ctx.submit(lambda a: None, x.rw(), symbol="function")
        lines.append(here() - 1)
        with ctx.cuda_kernel(x.rw(), symbol="kernel"):
            lines.append(here() - 1)
        ctx.host_launch(x.read(), fn=lambda a: None, symbol="host", uses_device=False)
        lines.append(here() - 1)
        assert [(node.file, node.line) for node in ctx.graph().nodes] == [
            (__file__, line) for line in lines
        ]
        ctx.fence()
    ctx.finalize()
    tasks = [node for node in ctx._trace_snapshot()["nodes"] if not node["is_copy"]]
    assert [(task["name"], task["line"]) for task in tasks] == list(
        zip(["function", "kernel", "host"] * 2, lines, strict=True)
    )


def test_edges_are_those_the_accesses_ask_for(ctx):
    x = ctx.logical_data(np.zeros(4), name="x")
    ctx.submit(lambda a: None, x.write(), symbol="first")
    ctx.submit(lambda a: None, x.read(), symbol="left")
    ctx.submit(lambda a: None, x.read(), symbol="right", place=stf.exec_place.device(1))
    ctx.submit(lambda a: None, x.rw(), symbol="next")
    ctx.finalize()
    graph = ctx.graph()
    names = {node.id: node.name for node in graph.nodes}
    assert {(names[edge.source], names[edge.target]) for edge in graph.edges} == {
        ("first", "left"), ("first", "right"), ("left", "next"), ("right", "next"),
    }  # fmt: skip


def test_graph_and_trace_are_of_the_viz_package(ctx):
    ctx.submit(int, symbol="one")
    ctx.finalize()
    assert isinstance(ctx.graph(), Graph)
    assert isinstance(ctx.trace(), Trace)


def test_fill_and_failure_are_told(ctx):
    data = ctx.logical_data_zeros((4,), name="z")
    ctx.submit(lambda a: 1 / 0, data.rw(), symbol="broken")
    ctx.submit(print, data.read(), symbol="behind")
    with pytest.raises(ZeroDivisionError):
        ctx.finalize()
    nodes = {node.name: node for node in ctx.graph().nodes}
    assert (nodes["broken"].how, nodes["behind"].how) == ("failed", "skipped")
    assert "fill" in {node.kind for node in ctx.graph().nodes}
