# SPDX-License-Identifier: Apache-2.0
"""Methods that are called without nanobind's search for their arguments.

What a class gives for such a name is nanobind's own method, so that both ways can be compared.
"""

import contextlib
import gc
import sys
import sysconfig
import weakref
from functools import partial

import millstream as stf
import numpy as np
import pytest

METHODS = [
    (stf.context, "task"),
    (stf.context, "logical_data_empty"),
    (stf.context, "submit"),
    (stf.context, "cuda_kernel"),
    (stf.logical_data, "read"),
    (stf.logical_data, "write"),
    (stf.logical_data, "rw"),
    (stf.task, "__enter__"),
    (stf.task, "__exit__"),
    (stf.task, "get_arg"),
    (stf.task, "get_arg_cai"),
    (stf.task, "args_cai"),
    (stf.task, "stream_ptr"),
    (stf.cuda_kernel, "__enter__"),
    (stf.cuda_kernel, "__exit__"),
    (stf.cuda_kernel, "get_arg"),
    (stf.cuda_kernel, "launch"),
]

classes_end = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")) and sys.version_info < (3, 14),
    reason="without the global lock, Python 3.13 keeps classes for good",
)


@pytest.fixture
def datum(ctx):
    return ctx.logical_data(np.zeros(4), name="x")


def own_of(ctx, datum, cls):
    made = {
        stf.context: lambda: ctx,
        stf.logical_data: lambda: datum,
        stf.task: lambda: ctx.task(datum.rw(), symbol="t"),
        stf.cuda_kernel: lambda: ctx.cuda_kernel(datum.rw(), symbol="t"),
    }
    return made[cls]()


def refusal_of(call, *arguments, **options):
    with pytest.raises(TypeError) as raised:
        call(*arguments, **options)
    return raised.type, str(raised.value)


@pytest.mark.parametrize(("cls", "name"), METHODS)
def test_the_method_is_another_one_with_the_same_words(ctx, datum, cls, name):
    ours, theirs = vars(cls)[name], getattr(cls, name)
    assert type(ours) is not type(theirs)
    bound = getattr(own_of(ctx, datum, cls), name)
    for each in (ours, bound):
        assert each.__doc__ == theirs.__doc__
        assert each.__name__ == theirs.__name__ == name
        assert each.__nb_signature__ == theirs.__nb_signature__
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize(("cls", "name"), METHODS)
@pytest.mark.parametrize(
    "arguments",
    [(), (None,), (1.5,), (1, 2), (1, 2, 3, 4, 5, 6, 7), (None, 1, 1, ()), (0, 1, None, None)],
    ids=str,
)
def test_what_is_refused_is_refused_in_the_same_words(ctx, cls, name, arguments):
    def outcome(method_of):
        own = own_of(ctx, ctx.logical_data(np.zeros(4), name="x"), cls)
        try:
            return type(method_of(own)(*arguments))
        except Exception as refused:
            return type(refused), str(refused)
        finally:
            if name == "__enter__" and not arguments:
                own.end()

    theirs = getattr(cls, name)
    assert outcome(lambda own: getattr(own, name)) == outcome(lambda own: partial(theirs, own))


@pytest.mark.parametrize(("cls", "name"), METHODS)
@pytest.mark.parametrize("arguments", [(), (None,), (object(),), (3, 4, 5)], ids=len)
def test_another_object_is_refused_in_the_same_words(ctx, cls, name, arguments):
    ours, theirs = vars(cls)[name], getattr(cls, name)
    kind, text = refusal_of(theirs, *arguments)
    assert kind is TypeError
    assert refusal_of(ours, *arguments) == (kind, text)


def test_keywords_are_taken(ctx, datum):
    home = stf.data_place.host()
    assert datum.read(dplace=home).dplace is home
    assert datum.read(home).dplace is home
    assert datum.read().dplace is None
    task = ctx.task(datum.rw(), symbol="named")
    assert "named" in repr(task)
    with task:
        assert task.get_arg(index=0) == task.get_arg(0)
        assert refusal_of(task.get_arg, number=0)[0] is TypeError
    with pytest.raises(TypeError):
        ctx.task(datum.rw(), simbol="named")


def test_subclasses_are_taken(machine):
    class own(stf.context):
        pass

    with own(machine=machine) as ctx:
        datum = ctx.logical_data(np.zeros(4))
        with ctx.task(datum.rw()) as t:
            assert t.get_arg(0) != 0


def test_errors_of_the_engine_have_the_line_of_the_call(ctx, datum):
    task = ctx.task(datum.rw())
    with task:
        pass
    with pytest.raises(stf.UsageError) as raised, task:
        pass
    line = sys._getframe().f_lineno
    assert raised.value.file == __file__
    assert line - 6 <= raised.value.line < line


def test_exceptions_of_the_users_go_on(ctx, datum):
    class Never:
        def __index__(self):
            raise KeyError("no number")

    with ctx.task(datum.rw()) as t:
        with pytest.raises(KeyError, match="no number"):
            t.get_arg(Never())


def test_bound_special_methods_may_stay(ctx, datum):
    task = ctx.task(datum.rw())
    enter, leave = task.__enter__, task.__exit__
    name = weakref.ref(datum)
    assert enter() is task
    assert leave(None, None, None) is False
    assert refusal_of(leave)[0] is TypeError
    assert refusal_of(leave, exc_type=None)[0] is TypeError
    assert repr(enter) == repr(task.__enter__) or "0x" in repr(enter)
    assert name() is datum
    del task
    gc.collect()
    assert leave(None, None, None) is False


def test_more_of_them_than_are_kept(ctx):
    data = [ctx.logical_data(np.zeros(4)) for _ in range(20)]
    for _ in range(3):
        with contextlib.ExitStack() as all_of_them:
            tasks = [ctx.task(each.rw()) for each in data]
            bound = [(task.__enter__, task.__exit__) for task in tasks]
            for enter, leave in bound:
                enter()
                all_of_them.push(leave)
            del bound
    assert [ctx.wait(each).tolist() for each in data] == [[0] * 4] * 20


def test_the_types_cannot_be_made(ctx, datum):
    for each in (vars(stf.task)["get_arg"], ctx.task(datum.rw()).__enter__):
        assert refusal_of(type(each))[0] is TypeError


def test_a_method_that_was_replaced_before_stays_so(run_clean):
    program = """
        import numpy as np
        import millstream as stf

        plain = stf.context.task
        stf.context.task = lambda self, *deps: [plain(self, *deps)]
        with stf.context(machine=stf.machine("host")) as ctx:
            datum = ctx.logical_data(np.zeros(4))
            (task,) = ctx.task(datum.rw())
            with task:
                pass
            print(type(vars(stf.context)["task"]).__name__, type(task).__name__)
        stf.context.task = plain
        with stf.context(machine=stf.machine("host")) as ctx:
            with ctx.task(ctx.logical_data(np.zeros(4)).rw()):
                pass
            print(type(vars(stf.context)["task"]).__name__)
    """
    assert run_clean(program) == "function task\nnb_method\n"


def test_a_method_that_was_dropped_before_is_not_taken_for_another_one(run_clean):
    program = """
        import millstream as stf

        def kind(slots):
            names = [f"s{i}" for i in range(slots)]
            return type("Own", (), {"__slots__": names, "__call__": lambda self, *_: "own"})

        def at(address):
            for slots in range(60):
                own, seen = kind(slots), []
                for _ in range(300):
                    seen.append(own())
                    if id(seen[-1]) == address:
                        return seen[-1]
            return own()

        address = id(stf.context.task)
        del stf.context.task
        stf.context.task = at(address)
        with stf.context(machine=stf.machine("host")) as ctx:
            print(ctx.task())
    """
    assert run_clean(program) == "own\n"


@classes_end
def test_objects_that_outlive_the_classes_are_refused(run_clean):
    program = """
        import codecs
        import os
        import numpy as np
        import millstream as stf

        class Late:
            def __init__(self, data):
                self.data = data
            def __call__(self, name):
                return None
            def __del__(self, write=os.write, refused=TypeError):
                try:
                    self.data.read()
                except refused:
                    write(1, b"refused")

        with stf.context(machine=stf.machine("host")) as ctx:
            data = ctx.logical_data(np.zeros(4))
            data.read()
        codecs.register(Late(data))  # goes after all modules
        del ctx, data
    """
    assert run_clean(program) == "refused"


@classes_end
def test_a_package_that_was_dropped_can_be_imported_again(run_clean):
    program = """
        import gc
        import sys
        import numpy as np

        def use():
            import millstream as stf

            with stf.context(machine=stf.machine("host")) as ctx:
                data = ctx.logical_data(np.zeros(4))
                with ctx.task(data.rw()) as t, ctx.cuda_kernel() as k:
                    print(type(t) is stf.task, type(k) is stf.cuda_kernel, t.get_arg(0) != 0)

        def drop():
            for name in list(sys.modules):
                if name.split(".")[0] == "millstream":
                    del sys.modules[name]
            gc.collect()

        for opened in (True, False, True, True):
            if opened:
                use()
            else:
                import millstream
                del millstream
            drop()
    """
    assert run_clean(program) == "True True True\n" * 3


@pytest.mark.parametrize("call", ["ctx.task(data.rw()).get_arg(Never())", "ctx.task(Never())"])
def test_threads_inside_of_them_outlive_the_end_of_the_interpreter(run_clean, call):
    program = f"""
        import threading
        import time
        import numpy as np
        import millstream as stf

        inside = threading.Event()

        class Never:
            def __index__(self):
                inside.set()
                while True:
                    time.sleep(0.0001)
            _as_stf_exec_place = __index__

        ctx = stf.context(machine=stf.machine("host"))
        data = ctx.logical_data(np.zeros(4))
        threading.Thread(target=lambda: {call}, daemon=True).start()
        assert inside.wait(60)
    """
    run_clean(program)
