# SPDX-License-Identifier: Apache-2.0
"""`cuda.stf._experimental` as a name of Millstream, where the package of that name is absent::

    import millstream.compat.cuda_stf

    millstream.compat.cuda_stf.install()
    import some_program_written_for_cuda_stf

The modules are the same objects under two names: ``cuda.stf._experimental is millstream``, and
``cuda.stf._experimental.interop.pytorch is millstream.interop.pytorch``. Names that Millstream does
not have yet are missing there, too.

`cuda` belongs to other packages (such as cuda-bindings), which are found first and stay as they
are; only where none of them is installed, `cuda` is an empty package of ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["install", "uninstall"]

_ROOT = "cuda.stf._experimental"
_PARENTS = ("cuda", "cuda.stf")
# Modules that have another name here; all others have the same.
_RENAMED = {
    "_stf_bindings": "millstream",
    "_stream_utils": "millstream.compat._stream_utils",
    "device_array": "millstream._device_array",
    "fill_utils": "millstream.compat._fill_utils",
}
_lock = threading.Lock()


class _AliasLoader(Loader):
    """Gives a module of ours in place of a new one."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> None:
        """A new module, which is put aside: what the importer writes into it is not for ours."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(self._target)


class _ParentLoader(Loader):
    """Makes an empty package."""

    def create_module(self, spec: ModuleSpec) -> None:
        """A new module."""

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = f"Made by millstream.compat.cuda_stf, so that {_ROOT} can be imported."


class _RootFinder(MetaPathFinder):
    """The last finder of all: what nobody else has found."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _ROOT:
            return ModuleSpec(name, _AliasLoader("millstream"), is_package=True)
        if name in _PARENTS:
            return ModuleSpec(name, _ParentLoader(), is_package=True)
        return None


class _SubmoduleFinder(MetaPathFinder):
    """The first of all: others would find the files of our modules and load them once more."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith(_ROOT + ".") and _is_ours():
            return ModuleSpec(name, _AliasLoader(_existing(name)), is_package=True)
        # `from cuda.stf._experimental import _stf_bindings` asks by the module's own name.
        package, _, child = name.rpartition(".")
        if package == "millstream" and child in _RENAMED:
            return ModuleSpec(name, _AliasLoader(_RENAMED[child]), is_package=True)
        return None


_finders = (_SubmoduleFinder(), _RootFinder())


def _is_ours() -> bool:
    return sys.modules.get(_ROOT) is sys.modules.get("millstream")


def _existing(name: str) -> str:
    """Our name of the module that has this one here."""
    child = name[len(_ROOT) + 1 :]
    own_name = _RENAMED.get(child, f"millstream.{child}")
    if own_name in sys.modules or importlib.util.find_spec(own_name) is not None:
        return own_name
    raise ModuleNotFoundError(
        f"No module named {name!r}: Millstream, which serves {_ROOT}, has none like it", name=name
    )


def _reference_is_there() -> bool:
    """Whether somebody else has the name; imports its parents, as finding it always does."""
    found = sys.modules.get(_ROOT)
    if found is not None:
        return not _is_ours()
    try:
        return importlib.util.find_spec(_ROOT) is not None
    except ModuleNotFoundError:
        return False


def install() -> bool:
    """Serves `cuda.stf._experimental` and its submodules from Millstream, from now on.

    True if that name is Millstream's. False, and nothing changes, if the package of that name is
    installed. May be called again, and from any thread. It costs little: modules are imported when
    they are asked for.

    ImportError where `cuda` is a single module, such as a file cuda.py, which can have no parts.
    """
    with _lock:
        if _finders[1] in sys.meta_path:
            return True
        if _reference_is_there():
            return False
        _check_parents()
        sys.meta_path.insert(0, _finders[0])
        sys.meta_path.append(_finders[1])
        return True


def _check_parents() -> None:
    for name in _PARENTS:
        module = sys.modules.get(name)
        if module is not None and not hasattr(module, "__path__"):
            where = getattr(module, "__file__", None) or "without a file"
            raise ImportError(
                f"{_ROOT} cannot be served, because '{name}' is a module ({where}) and no "
                "package; rename it",
                name=name,
            )


def uninstall() -> None:
    """Takes back what `install` did. Modules that programs have imported go on working."""
    with _lock:
        for finder in _finders:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
        _forget_modules()


def _forget_modules() -> None:
    aliases = [name for name in sys.modules if (name + ".").startswith(_ROOT + ".") and _is_ours()]
    for name in (*aliases, *filter(_is_empty_parent, reversed(_PARENTS))):
        del sys.modules[name]
        package, _, child = name.rpartition(".")
        if name in (_ROOT, "cuda.stf") and package in sys.modules:
            delattr(sys.modules[package], child)


def _is_empty_parent(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return isinstance(getattr(spec, "loader", None), _ParentLoader)
