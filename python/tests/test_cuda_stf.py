# SPDX-License-Identifier: Apache-2.0
"""`cuda.stf._experimental` as a name of ours, beside whatever else is installed as `cuda`."""

import importlib
import os
import pathlib
import subprocess
import sys
import sysconfig
import textwrap

import numpy
import pytest

# What Millstream needs of others, beside NumPy.
BACKPORTS = ("exceptiongroup", "typing_extensions") if sys.version_info < (3, 11) else ()

# What each case finds installed as `cuda`: files, with their content.
OTHERS = {
    "nothing": {},
    "namespace": {"cuda/bindings/__init__.py": "here = 1"},
    "package": {"cuda/__init__.py": "here = 1"},
    "namespace stf": {"cuda/stf/other.py": "here = 1"},
    "package stf": {"cuda/__init__.py": "", "cuda/stf/__init__.py": "here = 1"},
}
REFERENCE = {"cuda/stf/_experimental/__init__.py": "here = 1"}


@pytest.fixture
def run(tmp_path):
    """Runs a program in a folder of packages that has Millstream, NumPy and these files."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in ("millstream", "numpy", *BACKPORTS):
        file = pathlib.Path(importlib.import_module(name).__file__)
        source = file.parent if file.stem == "__init__" else file
        (packages / source.name).symlink_to(source)
    libs = pathlib.Path(numpy.__file__).parent.parent / "numpy.libs"
    if libs.exists():
        (packages / libs.name).symlink_to(libs)

    def run(files, program):
        for name, content in files.items():
            file = packages / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        # Without `site`, whose folders may have a `cuda`.
        done = subprocess.run(
            [sys.executable, "-S", "-W", "error", "-c", textwrap.dedent(program)],
            capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PYTHONPATH": str(packages), "MILLSTREAM_MACHINE": "host"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


needs_plain_layout = pytest.mark.skipif(
    not pathlib.Path(numpy.__file__).is_relative_to(sysconfig.get_path("platlib")),
    reason="NumPy is not where this interpreter installs packages",
)
pytestmark = needs_plain_layout

PROGRAM = """
    from millstream.compat.cuda_stf import install
    assert install() and install()

    import cuda.stf._experimental as stf
    import millstream
    import numpy as np
    from cuda.stf._experimental.interop import numba, pytorch
    from cuda.stf._experimental.interop.pytorch import pytorch_task
    import cuda.stf._experimental.interop.numba as again

    assert stf is millstream and again is numba
    assert pytorch_task is millstream.interop.pytorch.pytorch_task
    assert millstream.__spec__.name == millstream.__name__ == "millstream"
    assert numba.__spec__.name == "millstream.interop.numba"

    from cuda.stf._experimental import _stf_bindings
    from cuda.stf._experimental._stf_bindings import stf_cai
    from cuda.stf._experimental._stream_utils import get_stream_pointer
    from cuda.stf._experimental.device_array import DeviceArray
    assert DeviceArray is millstream.DeviceArray
    assert stf_cai is millstream.stf_cai and get_stream_pointer(None) == 0

    x = np.ones(4)
    with stf.context() as ctx:
        with ctx.task(ctx.logical_data(x).rw()) as (a,):
            a *= 2
    assert x.tolist() == [2] * 4
    print("well")
"""


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_program_written_for_the_other_package_runs(run, others):
    assert run(others, PROGRAM) == "well\n"


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_other_packages_are_as_before(run, others):
    assert run(others, """
        import importlib
        from millstream.compat.cuda_stf import install
        install()
        import cuda.stf._experimental
        for name in ("cuda", "cuda.bindings", "cuda.stf.other", "cuda.stf", "cuda.core"):
            try:
                print(name, getattr(importlib.import_module(name), "here", 0))
            except ModuleNotFoundError as missing:
                assert missing.name == name
    """).split() == {
        "nothing": ["cuda", "0", "cuda.stf", "0"],
        "namespace": ["cuda", "0", "cuda.bindings", "1", "cuda.stf", "0"],
        "package": ["cuda", "1", "cuda.stf", "0"],
        "namespace stf": ["cuda", "0", "cuda.stf.other", "1", "cuda.stf", "0"],
        "package stf": ["cuda", "0", "cuda.stf", "1"],
    }[next(name for name, files in OTHERS.items() if files is others)]  # fmt: skip


def test_package_of_that_name_is_never_shadowed(run):
    assert run(REFERENCE, """
        import sys
        from millstream.compat.cuda_stf import install
        before = list(sys.meta_path)
        assert not install() and not install()
        assert sys.meta_path == before
        import cuda.stf._experimental as stf
        assert stf.here == 1
        assert not install()
        try:
            import cuda.stf._experimental.interop
        except ModuleNotFoundError:
            print("well")
    """) == "well\n"  # fmt: skip


def test_package_that_comes_later_is_never_shadowed(run):
    assert run(REFERENCE, """
        import sys
        from millstream.compat.cuda_stf import install, uninstall
        hidden, sys.path[:] = list(sys.path), [each for each in sys.path if "packages" not in each]
        import importlib
        assert install()
        sys.path[:] = hidden
        importlib.invalidate_caches()
        import cuda.stf._experimental as stf
        assert stf.here == 1
        try:
            import cuda.stf._experimental.interop
        except ModuleNotFoundError:
            print("well")
        uninstall()
        assert "cuda.stf._experimental" in sys.modules
    """) == "well\n"  # fmt: skip


def test_single_module_of_that_name_is_an_error(run):
    assert run({"cuda.py": ""}, """
        import sys
        from millstream.compat.cuda_stf import install
        before = list(sys.meta_path)
        try:
            install()
        except ImportError as why:
            assert "cuda.py" in str(why) and "rename it" in str(why)
            assert sys.meta_path == before
            print("well")
    """) == "well\n"  # fmt: skip


def test_nothing_is_served_without_install(run):
    assert run({}, """
        import millstream.compat.cuda_stf
        try:
            import cuda.stf._experimental
        except ModuleNotFoundError:
            print("well")
    """) == "well\n"  # fmt: skip


def test_install_loads_nothing(run):
    assert run({}, """
        import sys
        from millstream.compat.cuda_stf import install
        install()
        import cuda.stf._experimental as stf
        import cuda.stf._experimental.interop.pytorch
        import cuda.stf._experimental.interop.numba
        print([name for name in ("millstream._core", "numpy", "torch", "numba")
               if name in sys.modules])
        stf.context
        assert "millstream._core" in sys.modules
    """) == "[]\n"  # fmt: skip


def test_what_millstream_lacks_is_missing_there_too(run):
    assert run({}, """
        from millstream.compat.cuda_stf import install
        install()
        import cuda.stf._experimental as stf
        try:
            stf.no_such_name
        except AttributeError as missing:
            print(missing)
        try:
            import cuda.stf._experimental.no_such_module
        except ModuleNotFoundError as missing:
            print(missing.name)
    """) == (
        "module 'millstream' has no attribute 'no_such_name'\n"
        "cuda.stf._experimental.no_such_module\n"
    )  # fmt: skip


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_uninstall_takes_all_back(run, others):
    assert run(others, """
        import sys
        from millstream.compat.cuda_stf import install, uninstall
        import millstream.interop.numba
        before, finders = set(sys.modules), list(sys.meta_path)
        install()
        import cuda.stf._experimental.interop.numba
        from cuda.stf._experimental import _stf_bindings
        uninstall()
        uninstall()
        assert sys.meta_path == finders
        print(sorted(name for name in set(sys.modules) - before
                     if name.startswith("cuda") and not hasattr(sys.modules[name], "here")
                     and not sys.modules[name].__path__))
        assert millstream.interop.numba is sys.modules["millstream.interop.numba"]
        try:
            import cuda.stf._experimental
        except ModuleNotFoundError:
            pass
        assert install()
        import cuda.stf._experimental as stf
        assert stf is millstream
    """) == "[]\n"  # fmt: skip
