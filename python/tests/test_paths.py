# SPDX-License-Identifier: Apache-2.0
"""Headers and library for C++ programs on top of the package."""

import pathlib
import shutil
import subprocess
import sys

import millstream as stf
import pytest
from millstream import paths

PROGRAM = """
#include <cstdio>
#include <vector>
#include <millstream/millstream.hpp>
int main() {
  std::vector<double> x(4, 1.0);
  millstream::context ctx(millstream::machine({.name = "host", .devices = 2}));
  auto lx = ctx.logical_data(x);
  ctx.parallel_for(lx.shape(), lx.rw(), [](std::size_t i, auto x) { x(i) *= 3; });
  ctx.finalize();
  std::printf("%g\\n", x[3]);
}
"""


def test_include_directory_holds_our_headers():
    folder = stf.get_stf_include_dir()
    assert isinstance(folder, pathlib.Path)
    assert (folder / "millstream" / "millstream.hpp").is_file()
    assert stf.get_stf_include_dir() is folder


def test_include_paths_are_named_and_ordered():
    found = stf.get_include_paths()
    assert found.stf == stf.get_stf_include_dir()
    assert (found.cuda, found.libcudacxx, found.cub, found.thrust) == (None,) * 4
    assert found.as_tuple() == (found.stf, None, None, None, None)


def test_library_is_in_its_directory():
    folder, library = stf.get_library_dir(), stf.get_library_path()
    assert folder.is_dir()
    assert library.is_file()
    assert library.parent == folder


def test_library_is_found_without_a_preferred_variant(monkeypatch):
    monkeypatch.setattr(paths, "_detect_preferred_extra", lambda: None)
    before = paths.get_library_dir()
    paths.get_library_dir.cache_clear()
    assert paths.get_library_dir() == before


def test_headers_are_found_under_a_site_folder(monkeypatch, tmp_path):
    folder = tmp_path / "millstream" / "include"
    (folder / "millstream").mkdir(parents=True)
    (folder / "millstream" / "millstream.hpp").write_text("")
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "elsewhere" / "paths.py"))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    paths.get_stf_include_dir.cache_clear()
    try:
        assert paths.get_stf_include_dir() == folder
    finally:
        paths.get_stf_include_dir.cache_clear()


def test_missing_headers_are_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(paths, "_candidates", lambda folder: iter(()))
    with pytest.raises(RuntimeError, match=r"millstream.hpp was not found.*install the wheel"):
        paths._find("include", "millstream/millstream.hpp")


def test_site_roots_are_folders_named_once():
    roots = list(paths.iter_site_roots())
    assert len(roots) == len(set(roots))
    assert all(root.is_dir() and root == root.resolve() for root in roots)


def test_paths_load_no_extension(run_clean):
    program = """
        import sys
        import millstream as stf
        stf.get_library_path(), stf.get_include_paths()
        print([name for name in ("numpy", "millstream._core") if name in sys.modules])
    """
    assert run_clean(program) == "[]\n"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_program_is_built_on_them(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(PROGRAM)
    folder = stf.get_library_dir()
    subprocess.run(
        [compiler, "-std=c++20", "-pthread", f"-I{stf.get_stf_include_dir()}", str(source),
         f"-L{folder}", f"-Wl,-rpath,{folder}", "-lmillstream", "-o", str(program)],
        check=True,
    )  # fmt: skip
    done = subprocess.run([str(program)], check=True, capture_output=True, text=True)
    assert done.stdout == "3\n"
