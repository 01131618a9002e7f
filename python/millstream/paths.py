# SPDX-License-Identifier: Apache-2.0
"""Where the C++ headers and the library of Millstream are, for programs that build on them.

    c++ -std=c++20 -I$(python -c "import millstream as m; print(m.get_stf_include_dir())") ...

Importing this module loads nothing else of the package.
"""

from __future__ import annotations

import functools
import pathlib
import site
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = "millstream/millstream.hpp"
_LIBRARY = "libmillstream.so"


@dataclass(frozen=True)
class IncludePaths:
    """Include directories by name; None where there is none.

    Attributes:
        cuda: of the CUDA toolkit; always None, because no header of ours needs it.
        libcudacxx: always None.
        cub: always None.
        thrust: always None.
        stf: of Millstream's headers.
    """

    cuda: pathlib.Path | None
    libcudacxx: pathlib.Path | None
    cub: pathlib.Path | None
    thrust: pathlib.Path | None
    stf: pathlib.Path | None

    def as_tuple(self) -> tuple[pathlib.Path | None, ...]:
        """All of them in the order in which a compiler should look."""
        return (self.stf, self.thrust, self.cub, self.libcudacxx, self.cuda)


def iter_site_roots() -> Iterator[pathlib.Path]:
    """The folders Python imports from, resolved, each once."""
    seen = set()
    for name in (*sys.path, *site.getsitepackages(), site.getusersitepackages()):
        root = pathlib.Path(name or ".").resolve()
        if root in seen or not root.is_dir():
            continue
        seen.add(root)
        yield root


def _detect_preferred_extra() -> str | None:
    """Which variant of the library to look for first. There is one for all CUDA versions: None."""
    return None


def _candidates(folder: str) -> Iterator[pathlib.Path]:
    yield pathlib.Path(__file__).resolve().parent / folder
    for root in iter_site_roots():
        yield root / "millstream" / folder


def _find(folder: str, name: str) -> pathlib.Path:
    for candidate in _candidates(folder):
        if (candidate / name).is_file():
            return candidate
    raise RuntimeError(
        f"{name} was not found in the folder '{folder}' of the package nor under the site folders; "
        "install the wheel of millstream, or build the C++ library with CMake"
    )


@functools.lru_cache(maxsize=1)
def get_stf_include_dir() -> pathlib.Path:
    """The directory to give to a compiler as ``-I``: it holds ``millstream/millstream.hpp``.

    Raises:
        RuntimeError: there is none.
    """
    return _find("include", _HEADER)


def get_include_paths() -> IncludePaths:
    """The include directories of a program on top of Millstream; RuntimeError without ours."""
    return IncludePaths(
        cuda=None, libcudacxx=None, cub=None, thrust=None, stf=get_stf_include_dir()
    )


@functools.lru_cache(maxsize=1)
def get_library_dir() -> pathlib.Path:
    """The directory of the shared library, for ``-L`` and ``-Wl,-rpath``.

    Raises:
        RuntimeError: there is none.
    """
    return _find("lib", _LIBRARY)


@functools.lru_cache(maxsize=1)
def get_library_path() -> pathlib.Path:
    """The shared library; RuntimeError if there is none."""
    return get_library_dir() / _LIBRARY
