# SPDX-License-Identifier: Apache-2.0
"""Bodies of one recorded context in several threads, and how each of them ends.

A program that stands still does so with the interpreter lock, so each has an interpreter of its
own, which ends it.
"""

import pathlib
import textwrap

import pytest

HERE = str(pathlib.Path(__file__).resolve().parent)
BEGIN = """
import faulthandler, os, signal, sys, threading, time, types
faulthandler.dump_traceback_later(60, exit=True)
sys.path.insert(0, HERE)
import cuda_driver
import millstream as stf
import numpy as np
from millstream.interop import numba, pytorch
from millstream.interop.numba import jit, numba_task
from millstream.interop.pytorch import pytorch_task

COUNT = 300
driver = cuda_driver.Driver(cuda_driver.LIBRARY)
driver.use(driver.primary())
ctx = stf.context(use_graph=True)
a, b = (ctx.logical_data(np.ones(COUNT), name=name) for name in "ab")
for data in (a, b):  # what needs a copy waits for bodies of others
    with ctx.task(data.rw()) as t:
        t.stream_ptr()
ctx.fence()
opened, ended, ran = threading.Event(), threading.Event(), threading.Event()

def hold():
    with ctx.task(a.rw(), symbol="slow") as t:
        t.stream_ptr()
        opened.set()
        assert ended.wait(30), "the other thread waits for this one"

other = threading.Thread(target=hold)
other.start()
opened.wait()
"""

END = """
other.join()
assert ctx.wait(a).tolist() == [1.0] * COUNT
"""


@pytest.fixture
def run(look_alike, run_clean):
    def run(*parts):
        program = "\n".join(textwrap.dedent(each) for each in parts)
        return run_clean(BEGIN.replace("HERE", repr(HERE)) + program).split("\n")[:-1]

    return run


WITH = """
    try:
        with {block} as t:
            raise ValueError("boom")
    except ValueError as caught:
        print("caught", caught)
"""
FAILURES = {
    "a block": (WITH.format(block='ctx.task(b.rw(), symbol="fails")'),),
    "a block that looked at its stream": ("""
        try:
            with ctx.task(b.rw(), symbol="fails") as t:
                t.stream_ptr()
                raise ValueError("boom")
        except ValueError as caught:
            print("caught", caught)
    """,),
    "PyTorch": ("""
        def read(capsule):
            return types.SimpleNamespace(detach=lambda: capsule)
        current = (0, 0, 1)
        pytorch._import_torch = lambda: types.SimpleNamespace(
            from_dlpack=read,
            Tensor=types.SimpleNamespace,
            inference_mode=lambda mode: __import__("contextlib").nullcontext(),
            _C=types.SimpleNamespace(
                _cuda_getCurrentStream=lambda device: current, _cuda_setStream=lambda *number: None
            ),
            cuda=types.SimpleNamespace(
                is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 2,
                current_device=lambda: 0, init=lambda: None,
                ExternalStream=lambda stream, device: types.SimpleNamespace(
                    stream_id=stream, device_index=device, device_type=1),
            ),
        )
    """, WITH.format(block="pytorch_task(ctx, b.rw())")),
    "Numba": ("""
        numba._import_numba_cuda = lambda: types.SimpleNamespace(
            from_cuda_array_interface=lambda view, owner, sync: view,
            external_stream=lambda handle: handle,
        )
        numba._simulated = lambda: False
    """, WITH.format(block='numba_task(ctx, b.rw(), symbol="fails")')),
    "a submitted function": ("""
        def fails(values):
            raise ValueError("boom")

        ctx.submit(fails, b.rw(), symbol="fails")
        try:
            ctx.check_errors()
        except ValueError as caught:
            print("caught", caught)
    """,),
}  # fmt: skip


@pytest.mark.parametrize("how", FAILURES)
def test_one_that_failed_waits_for_nobody(run, how):
    """It has no nodes to put into the stage."""
    told = run(
        *FAILURES[how],
        """
            assert other.is_alive()
            ended.set()
            try:
                ctx.wait(b)
            except stf.PoisonedError as poisoned:
                print("boom" in str(poisoned), type(poisoned.__cause__).__name__)
        """,
        END,
        "ctx.finalize()\nprint(ctx.stats()['child_graphs'])\n",
    )
    assert told == ["caught boom", "True ValueError", "0"]


def test_one_that_is_dropped_waits_for_nobody(run):
    told = run(
        """
        t = ctx.task(b.rw(), symbol="dropped")
        t.start()
        t.stream_ptr()
        del t
        assert other.is_alive()
        ended.set()
        """,
        """
        try:
            ctx.wait(b)
        except stf.PoisonedError as poisoned:
            print("'dropped'" in str(poisoned), "dropped before end()" in str(poisoned))
        """,
        END,
        "ctx.finalize()\n",
    )
    assert told == ["True True"]


def test_a_kernel_of_jit_that_fails_waits_for_nobody(run):
    told = run(
        """
        numba._import_numba_cuda = lambda: types.SimpleNamespace(
            from_cuda_array_interface=lambda view, owner, sync: view,
            external_stream=lambda handle: handle,
        )
        numba._simulated = lambda: False

        class Refuses:
            def __getitem__(self, configuration):
                def launch(*args):
                    raise ValueError("boom")
                return launch

        kernel = jit(lambda x: None)
        kernel._compiled = Refuses()
        try:
            kernel[1, 32](b.rw())
        except ValueError as caught:
            print("caught", caught)
        assert other.is_alive()
        ended.set()
        """,
        END,
        "ctx.finalize()\n",
    )
    assert told == ["caught boom"]


def test_its_data_are_healed_by_the_next_write(run):
    """Whose nodes come into the same stage."""
    told = run(
        """
        try:
            with ctx.task(b.rw()) as t:
                t.stream_ptr()
                raise ValueError("boom")
        except ValueError:
            pass
        ended.set()
        other.join()
        with ctx.cuda_kernel(b.write()) as k:
            pass
        print(len(ctx.wait(b)))
        ctx.finalize()
        """
    )
    assert told == ["300"]


INTERRUPT = """
def interrupt():
    main = threading.main_thread().ident
    while not ran.is_set() or sys._current_frames()[main].f_code.co_name != "blocked":
        time.sleep(0.001)
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
"""
ENDS = {
    "a block": """
        def blocked(task):
            task.end()

        t = ctx.task(b.rw(), symbol="beside")
        t.start()
        t.stream_ptr()
        ran.set()
        call = lambda: blocked(t)
    """,
    "a submitted function": """
        def blocked():
            ctx.submit(lambda values: ran.set(), b.rw(), symbol="beside")

        call = blocked
    """,
}


@pytest.mark.parametrize("how", ENDS)
def test_ctrl_c_at_the_end_of_one_is_told_once(run, how):
    """The task has failed then, and says why to who needs its data."""
    told = run(
        ENDS[how],
        INTERRUPT,
        """
            try:
                call()
            except BaseException as caught:
                print(type(caught).__name__, caught.__cause__)
            assert other.is_alive()
            ended.set()
            other.join()
            try:
                ctx.wait(b)
            except stf.PoisonedError as poisoned:
                print("task 'beside'" in str(poisoned), "was interrupted" in str(poisoned),
                      type(poisoned.__cause__).__name__)
            ctx.check_errors()
        """,
        END,
        "ctx.finalize()\nprint(ctx.stats()['failed'], ctx.stats()['child_graphs'])\n",
    )
    assert told == ["KeyboardInterrupt None", "True True TaskFailedError", "1 0"]


def test_one_that_was_interrupted_has_ended(run):
    """Its views raise, and its device is current no more."""
    told = run(
        ENDS["a block"],
        INTERRUPT,
        """
            view = t.get_arg_cai(0)
            try:
                call()
            except KeyboardInterrupt:
                pass
            print(t)
            for use in (t.end, lambda: view.ptr):
                try:
                    use()
                except stf.UsageError as refused:
                    print("has ended already" in str(refused) or "had ended" in str(refused))
            ended.set()
        """,
        END,
        "ctx.finalize()\n",
    )
    assert told == ["task(task 'beside', 1 deps, ended)", "True", "True"]


def test_a_task_ends_once_while_its_end_waits(run):
    told = run(
        """
        t = ctx.task(b.rw(), symbol="beside")
        t.start()
        t.stream_ptr()

        def end_again():
            main = threading.main_thread().ident
            while sys._current_frames()[main].f_code.co_name != "blocked":
                time.sleep(0.001)
            time.sleep(0.05)
            try:
                t.end()
            except stf.UsageError as refused:
                print("call end() once" in str(refused))
            ended.set()

        def blocked():
            t.end()

        threading.Thread(target=end_again).start()
        blocked()
        """,
        END,
        "print(ctx.wait(b)[0])\nctx.finalize()\n",
    )
    assert told == ["True", "1.0"]


def test_ctrl_c_at_the_end_of_a_described_kernel_takes_it_back(run):
    """Nothing of it was launched, so that its data are as before."""
    told = run(
        """
        ended.set()
        other.join()
        k = ctx.cuda_kernel(b.rw(), symbol="kernel")
        k.start()
        k.launch(driver._function("test_scale_f64"), 4, 64, [k.get_arg(0), 2.0, COUNT])
        opened.clear()
        ended.clear()
        other = threading.Thread(target=hold)
        other.start()
        opened.wait()

        def blocked():
            k.end()

        ran.set()
        """,
        INTERRUPT,
        """
        try:
            blocked()
        except BaseException as caught:
            print(type(caught).__name__, caught.__cause__)
        print(k)
        ended.set()
        print(ctx.wait(b)[0])
        """,
        END,
        "ctx.finalize()\n",
    )
    assert told == ["KeyboardInterrupt None",
                    "cuda_kernel(task 'kernel', 1 deps, 1 launches, ended)", "1.0"]  # fmt: skip


def test_an_array_is_registered_while_data_that_were_dropped_wait(run):
    """They are written back when the other thread's body has ended."""
    told = run(
        """
        dropped = ctx.logical_data(np.ones(COUNT))
        del dropped
        array = np.ones(COUNT)
        threading.Timer(0.1, ended.set).start()
        print(ctx.logical_data(array).shape)
        """,
        END,
        "ctx.finalize()\n",
    )
    assert told == ["(300,)"]
