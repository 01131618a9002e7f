# SPDX-License-Identifier: Apache-2.0
"""What importing the package does and offers."""

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


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'stackable_contxt'"):
        _ = stf.stackable_contxt


@pytest.mark.parametrize("name", ["stackable_context", "task_graph", "exec_place_grid", "cond"])
def test_names_of_later_versions_are_absent(name):
    assert not hasattr(stf, name)


def test_every_public_name_has_a_docstring():
    def documented(owner, names):
        return [name for name in names if not getattr(getattr(owner, name), "__doc__", None)]

    names = [name for name in stf.__all__ if name != "__version__"]
    assert documented(stf, names) == []
    for cls in (stf.context, stf.logical_data, stf.task, stf.stf_cai, stf.machine, stf.dep):
        public = [name for name in vars(cls) if not name.startswith("_")]
        assert documented(cls, public) == []


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
