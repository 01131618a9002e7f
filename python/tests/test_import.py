# SPDX-License-Identifier: Apache-2.0
"""What importing the package does and offers."""

import contextlib
import copy
import importlib
import inspect
import pickle
import pkgutil
import rlcompleter

import millstream as stf
import pytest


def test_import_loads_neither_numpy_nor_the_extension(run_clean):
    program = """
        import sys
        import millstream
        print([name for name in ("numpy", "millstream._core") if name in sys.modules])
    """
    assert run_clean(program) == "[]\n"


def test_first_name_loads_the_extension_but_not_numpy(run_clean):
    program = """
        import sys
        import millstream as stf
        stf.context(machine=stf.machine("null")).finalize()
        print("numpy" in sys.modules, "millstream._core" in sys.modules)
    """
    assert run_clean(program) == "False True\n"


def test_every_name_of_all_resolves():
    for name in stf.__all__:
        assert getattr(stf, name) is getattr(stf, name)


def test_dir_lists_all_names_sorted():
    names = dir(stf)
    assert names == sorted(names)
    assert set(stf.__all__) <= set(names)


def test_dir_and_tab_completion_show_nothing_of_the_modules_own():
    names = {name for name in dir(stf) if not name.startswith("_")}
    modules = {each.name for each in pkgutil.iter_modules(stf.__path__)} | {"fill_utils"}
    assert names <= set(stf.__all__) | modules


def test_star_import_gives_all_names(run_clean):
    program = """
        from millstream import *
        import millstream
        print(sorted(set(millstream.__all__) - set(globals())))
    """
    assert run_clean(program) == "[]\n"


def test_details_of_errors_are_copied_and_pickled():
    error = stf.UsageError("a text")
    assert (error.task, error.data, error.file, error.line) == (None,) * 4
    error.task, error.line = "task 'a'", 7
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is stf.UsageError
        assert (again.args, again.task, again.data, again.line) == (
            ("a text",), "task 'a'", None, 7,
        )  # fmt: skip


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'stackable_contxt'"):
        _ = stf.stackable_contxt


@pytest.mark.parametrize(
    "name",
    ["stackable_context", "task_graph", "exec_place_grid", "exec_place_resources", "cond"],
)
def test_names_of_later_versions_are_absent(name):
    assert not hasattr(stf, name)


@pytest.mark.parametrize(
    ("cls", "name"), [("context", "place_resources"), ("exec_place", "pick_stream")]
)
def test_members_of_later_versions_are_absent(cls, name):
    assert not hasattr(getattr(stf, cls), name)


def public_classes():
    found = [getattr(stf, name) for name in stf.__all__]
    return [each for each in found if inspect.isclass(each)]


def own_members(cls):
    """Public names of the class and its bases that are written here, and special methods of it."""
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), object)
        if owner.__module__.startswith("millstream") and not name.startswith("_"):
            yield name
    yield from (name for name in ("__enter__", "__exit__", "__getitem__") if name in vars(cls))


def public_modules():
    """Those whose names have no underscore, as far as what they need is installed."""
    for each in pkgutil.walk_packages(stf.__path__, "millstream."):
        if any(part.startswith("_") for part in each.name.split(".")[1:]):
            continue
        with contextlib.suppress(ImportError):
            yield importlib.import_module(each.name)


def test_every_public_name_has_a_docstring():
    names = [name for name in stf.__all__ if name != "__version__"]
    assert [name for name in names if not getattr(stf, name).__doc__] == []


def test_every_public_member_of_a_class_has_a_docstring():
    without = [
        f"{cls.__name__}.{name}"
        for cls in public_classes()
        for name in own_members(cls)
        if not getattr(getattr(cls, name), "__doc__", None) and not issubclass(cls, stf.AccessMode)
    ]
    assert without == []


def test_every_public_module_and_its_names_have_a_docstring():
    without = []
    for module in public_modules():
        own = {
            f"{module.__name__}.{name}": value
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        }
        own[module.__name__] = module
        without += [name for name, value in own.items() if not value.__doc__]
    assert without == []


def test_every_class_has_a_repr_of_its_own():
    assert [cls.__name__ for cls in public_classes() if cls.__repr__ is object.__repr__] == []


def test_all_names_together_load_no_framework_and_no_driver(run_clean):
    program = """
        import sys
        import millstream as stf

        for name in stf.__all__:
            getattr(stf, name)
        frameworks = ("torch", "cupy", "numba", "jax", "warp", "cuda", "asyncio")
        print([name for name in frameworks if name in sys.modules])
        print("libcuda" in open("/proc/self/maps").read())
    """
    assert run_clean(program) == "[]\nFalse\n"


def completions(text, **names):
    completer = rlcompleter.Completer(names)
    return {completer.complete(text, state) for state in range(200)} - {None}


def test_tab_completion_finds_names(host):
    assert {"stf.logical_data(", "stf.LayoutError("} <= completions("stf.l", stf=stf) | completions(
        "stf.L", stf=stf
    )
    with stf.context(machine=host) as ctx:
        assert {"ctx.done(", "ctx.finalize("} <= completions("ctx.", ctx=ctx)
        data = ctx.logical_data(bytearray(8))
        assert {"data.get(", "data.read(", "data.shape"} <= completions("data.", data=data)


def test_error_classes_derive_from_error_and_the_closest_builtin():
    builtin = {
        stf.UsageError: RuntimeError,
        stf.InvalidValueError: ValueError,
        stf.InvalidTypeError: TypeError,
        stf.OutOfRangeError: IndexError,
        stf.MissingDataError: KeyError,
        stf.LayoutError: BufferError,
        stf.OutOfMemoryError: MemoryError,
        stf.NotWrittenError: RuntimeError,
        stf.PoisonedError: RuntimeError,
        stf.UnimplementedError: NotImplementedError,
        stf.UnavailableError: RuntimeError,
    }
    for cls, base in builtin.items():
        assert issubclass(cls, stf.Error)
        assert issubclass(cls, base)
