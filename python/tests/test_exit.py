# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter, fork and spawn. Each test is a process of its own."""

import pytest


@pytest.mark.fault("A44")
def test_objects_alive_at_exit(run_clean):
    program = """
        import numpy as np
        import millstream as stf

        ctx = stf.context(trace=True)
        data = ctx.logical_data(np.zeros(4))
        token = ctx.token()
        task = ctx.task(data.rw())
        task.start()
        view, array = task.args_cai(), task.args()
        graph = ctx.graph()

        class Cycle:
            pass

        cycle = Cycle()
        cycle.parts = [cycle, ctx, data, task]
        finalized = stf.context()
        finalized.finalize()
        print("end")
    """
    assert run_clean(program) == "end\n"


def test_live_context_warns_once_at_exit(run_python):
    program = """
        import millstream as stf
        ctx = stf.context()
        data = ctx.logical_data(bytearray(4))
    """
    done = run_python(program, "-W", "always::ResourceWarning")
    assert done.returncode == 0
    assert done.stderr.count("without an explicit finalize") <= 1
    assert "Traceback" not in done.stderr


@pytest.mark.fault("A44")
def test_queued_work_is_dropped_at_exit(run_clean):
    program = """
        import threading
        import millstream as stf

        ctx = stf.context()
        started, token = threading.Event(), ctx.token()
        ctx.host_launch(token.rw(), fn=lambda: (started.set(), print("running", flush=True)))
        hold = threading.Event()
        ctx.host_launch(token.rw(), fn=lambda: hold.wait(0.2))
        for _ in range(1000):
            ctx.host_launch(token.rw(), fn=lambda: print("queued"))
        started.wait()
    """
    assert run_clean(program).splitlines()[0] == "running"


def test_body_that_never_ends_does_not_stop_the_exit(run_clean):
    program = """
        import threading
        import millstream as stf

        ctx = stf.context()
        started = threading.Event()

        def body():
            started.set()
            while True:
                sum(range(1000))

        ctx.submit(body, place=stf.exec_place.host())
        started.wait()
        print("end")
    """
    assert run_clean(program) == "end\n"


def test_thread_blocked_in_a_wait_does_not_stop_the_exit(run_python):
    program = """
        import threading
        import numpy as np
        import millstream as stf

        ctx = stf.context()
        data = ctx.logical_data(np.zeros(1))
        started = threading.Event()
        ctx.host_launch(data.rw(), fn=lambda a: (started.set(), threading.Event().wait()))
        thread = threading.Thread(target=lambda: ctx.wait(data), daemon=True)
        thread.start()
        started.wait()
        print("end")
    """
    done = run_python(program)
    assert (done.returncode, done.stdout) == (0, "end\n")


@pytest.mark.host_devices
def test_daemon_thread_inside_of_a_launch_does_not_stop_the_exit(run_python):
    pytest.importorskip("numba.cuda")
    program = """
        import sys
        import threading
        import time
        import numpy as np
        import millstream as stf
        from millstream.interop.numba import jit

        inside = threading.Event()

        @jit
        def kernel(x):
            inside.set()
            time.sleep(0.3)

        ctx = stf.context()
        data = ctx.logical_data(np.ones(4, np.float32))
        threading.Thread(target=lambda: kernel[1, 1](data.rw()), daemon=True).start()
        inside.wait()

        class Slow:
            def __del__(self, sleep=time.sleep):
                sleep(1)

        sys.slow = Slow()  # goes when threads have been cut off
        print("end")
    """
    done = run_python(program, "-W", "ignore", NUMBA_ENABLE_CUDASIM="1")
    assert (done.returncode, done.stdout) == (0, "end\n")


def test_exception_that_ends_the_program_leaves_its_exit_code(run_python):
    program = """
        import millstream as stf
        with stf.context() as ctx:
            ctx.submit(lambda: 1 / 0, symbol="broken")
            raise SystemExit(7)
    """
    assert run_python(program).returncode == 7


def test_handlers_of_the_user_may_still_finalize(run_clean):
    program = """
        import atexit
        import numpy as np
        import millstream as stf

        ctx = stf.context()
        source = np.zeros(1)
        ctx.host_launch(ctx.logical_data(source).write(), fn=lambda a: a.fill(5))
        atexit.register(lambda: (ctx.finalize(), print(source[0])))
    """
    assert run_clean(program) == "5.0\n"


def test_work_after_the_end_is_unavailable(run_clean):
    program = """
        import atexit
        import millstream

        def late():
            try:
                ctx = millstream.context()
                ctx.submit(print, args=("ran",))
            except millstream.UnavailableError:
                print("unavailable")

        atexit.register(late)
        ctx = millstream.context()
        ctx.finalize()
    """
    assert run_clean(program) == "unavailable\n"


@pytest.mark.fault("A45")
def test_forked_child_gets_a_clear_error(run_clean):
    program = """
        import os
        import numpy as np
        import millstream as stf

        ctx = stf.context()
        source = np.zeros(1)
        data = ctx.logical_data(source)
        ctx.host_launch(data.rw(), fn=lambda a: np.add(a, 1, out=a))
        ctx.wait(data)
        child = os.fork()
        if child == 0:
            answers = []
            for call in (stf.context, lambda: ctx.submit(int), lambda: ctx.wait(data),
                         lambda: ctx.task(data.rw()).start(), ctx.finalize, ctx.fence):
                try:
                    call()
                    answers.append("nothing")
                except stf.UnavailableError as error:
                    answers.append("fork" in str(error))
            del data, ctx
            os._exit(0 if answers == [True] * 6 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ctx.host_launch(data.rw(), fn=lambda a: np.add(a, 1, out=a))
        ctx.finalize()
        print(source[0])
    """
    assert run_clean(program, "-W", "ignore::DeprecationWarning") == "2.0\n"


@pytest.mark.fault("A45")
def test_forked_child_ends_well(run_clean):
    program = """
        import os
        import numpy as np
        import millstream as stf

        with stf.context() as ctx:
            data = ctx.logical_data(np.zeros(1))
            ctx.submit(lambda a: None, data.rw())
            ctx.wait(data)
            child = os.fork()
            if child == 0:
                raise SystemExit(5)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run_clean(program, "-W", "ignore::DeprecationWarning") == "5\n"


def test_fork_before_the_first_use_is_harmless(run_clean):
    program = """
        import os
        import numpy as np
        import millstream as stf

        stf.context
        child = os.fork()
        source = np.zeros(1)
        with stf.context() as ctx:
            ctx.host_launch(ctx.logical_data(source).write(), fn=lambda a: a.fill(3))
        if child == 0:
            raise SystemExit(int(source[0]))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), source[0])
    """
    assert run_clean(program, "-W", "ignore::DeprecationWarning") == "3 3.0\n"


@pytest.mark.fault("A45")
def test_spawned_child_works(run_clean):
    program = """
        import multiprocessing

        def work(_):
            import numpy as np
            import millstream as stf

            source = np.zeros(1)
            with stf.context() as ctx:
                ctx.host_launch(ctx.logical_data(source).write(), fn=lambda a: a.fill(4))
            return float(source[0])

        if __name__ == "__main__":
            import millstream as stf

            stf.context().finalize()
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [0]))
    """
    assert run_clean(program) == "[4.0]\n"


def test_nothing_of_the_extension_leaks(run_clean):
    program = """
        import gc
        import numpy as np
        import millstream as stf
        from millstream import _core

        _core._set_leak_warnings(True)

        def main():
            with stf.context(trace=True) as ctx:
                data, token = ctx.logical_data(np.zeros(4)), ctx.token()
                for _ in range(10):
                    ctx.submit(lambda a: None, data.rw(), token.read())
                    with ctx.task(data.rw()) as t:
                        t.args_cai(), t.args()
                try:
                    with ctx.task(data.rw()):
                        raise ValueError
                except ValueError:
                    pass
                ctx.graph()

        main()
        gc.collect()
    """
    run_clean(program)


def test_interrupted_program_ends_with_a_traceback(run_python):
    program = """
        import os, signal, threading
        import numpy as np
        import millstream as stf

        with stf.context() as ctx:
            data = ctx.logical_data(np.zeros(1))
            ctx.host_launch(data.rw(), fn=lambda a: os.kill(os.getpid(), signal.SIGINT))
            ctx.wait(data)
            threading.Event().wait()
    """
    done = run_python(program)
    assert done.returncode == -2
    assert "KeyboardInterrupt" in done.stderr


# -- threads that Python has not made ------------------------------------------------------------

FOREIGN_THREAD = """
    import ctypes
    import threading
    import numpy as np
    import millstream as stf

    libc = ctypes.CDLL(None)
    libc.pthread_create.argtypes = [ctypes.c_void_p] * 4
    libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    USED = b"used_dltensor"

    class Taken:
        '''What a consumer has of an array; its deleter is the last of eight words.'''

        def __init__(self, capsule):
            self.content = pointer_of(capsule, b"dltensor")
            self.deleter = ctypes.c_void_p.from_address(self.content + 56).value
            rename(capsule, USED)

        def drop(self):
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.deleter)(self.content)

        def drop_on_foreign_thread(self):
            thread = ctypes.c_ulong()
            at = ctypes.addressof(thread)
            assert libc.pthread_create(at, None, self.deleter, self.content) == 0
            assert libc.pthread_join(thread.value, None) == 0

    memory = np.zeros(4)

    def export(owner):
        return Taken(stf.dlpack_export(owner, memory.ctypes.data, [4], 2, 64, 0))
"""


def test_arrays_may_be_let_go_on_a_foreign_thread(run_clean):
    program = """
    array = stf.DeviceArray(4, "f4", stf.data_place.host())
    release, taken = array._finalizer_ref, Taken(array.__dlpack__(stream=-1))
    del array
    print(release.alive)
    taken.drop_on_foreign_thread()
    print(release.alive)

    with stf.context() as ctx:
        data = ctx.logical_data(memory)
        with ctx.task(data.rw(), stf.exec_place.host()) as task:
            taken = Taken(task.get_arg_cai(0).__dlpack__())
    taken.drop_on_foreign_thread()
    print("end")
    """
    assert run_clean(FOREIGN_THREAD + program) == "True\nFalse\nend\n"


def test_a_foreign_thread_may_take_the_lock_while_it_ends(run_clean):
    # As its values of threading.local do that it got from the code that let go of the array.
    program = """
    values = threading.local()

    class Second:
        def __init__(self, what):
            self.what = what

        def __del__(self):
            self.what.drop()
            print("second")

    class First:
        def __del__(self):
            values.second = Second(export(Third()))
            print("first")

    class Third:
        def __del__(self):
            print("third")

    # Made by a thread that has ended: without the global lock, objects end on their own.
    made = []
    thread = threading.Thread(target=lambda: made.append(export(First())))
    thread.start()
    thread.join()
    made.pop().drop_on_foreign_thread()
    print("end", threading.active_count())
    """
    assert run_clean(FOREIGN_THREAD + program) == "first\nthird\nsecond\nend 1\n"


@pytest.mark.parametrize("named", [True, False])
def test_graph_alive_at_exit(run_clean, named):
    # Its parts go on a thread of the library, when the interpreter has gone.
    program = """
        import numpy as np
        import millstream as stf

        machine = stf.machine("host") if NAMED else None
        ctx = stf.context(use_graph=True, machine=machine)
        data = ctx.logical_data(np.ones(4))
        graph = ctx.to_graph()
        print("end")
    """
    for _ in range(5):
        assert run_clean(program.replace("NAMED", str(named))) == "end\n"
