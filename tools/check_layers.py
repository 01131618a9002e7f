#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include against the USES lists of the build files, and vendor headers by folder.

The one truth is `millstream_module(<name> SOURCES ... USES ...)` in src/**/CMakeLists.txt. Rules:
  * a module includes its own headers, those of the modules it uses, and <millstream/...>;
  * include/millstream includes the standard library and itself; python/src adds nanobind;
  * USES lists have no cycle; a driver (a module inside backend/) is used by `assembly` alone;
  * each source file is in the SOURCES list of its folder, and each listed file exists;
  * vendor headers stay where VENDOR_HOMES allows them.
"""

import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE_SUFFIXES = {".cpp", ".hpp", ".h", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
MODULE = re.compile(r"millstream_module\(\s*(\w+)([^)]*)\)")

# Header pattern -> folders that may include it.
VENDOR_HOMES = {
    re.compile(r"^cuda[\w.]*\.h$|^cuda/"): ("tests/abi",),
    re.compile(r"^mpi\.h$"): ("src/net/mpi",),
    re.compile(r"^Python\.h$|^nanobind/"): ("python/src",),
    re.compile(r"^dlfcn\.h$"): ("src/base",),
}


class Module(NamedTuple):
    name: str
    folder: pathlib.Path
    sources: tuple[str, ...]
    uses: tuple[str, ...]


def relative(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


def files_under(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES)


def includes_of(path: pathlib.Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def read_modules() -> dict[str, Module]:
    modules = {}
    for build_file in sorted((ROOT / "src").rglob("CMakeLists.txt")):
        text = re.sub(r"#.*", "", build_file.read_text(encoding="utf-8"))
        for name, body in MODULE.findall(text):
            sources, _, uses = body.partition("USES")
            listed = tuple(sources.replace("SOURCES", "").split())
            modules[name] = Module(name, build_file.parent, listed, tuple(uses.split()))
    return modules


def owner_of(path: pathlib.Path, modules: dict[str, Module]) -> Module | None:
    """The module of a file under src/: its folder's, or the one that lists it (assembly.cpp)."""
    for module in modules.values():
        if path.parent == module.folder and path.name in module.sources:
            return module
    for folder in path.parents:
        for module in modules.values():
            if module.folder == folder and folder != ROOT / "src":
                return module
    return None


def check_lists(modules: dict[str, Module]) -> list[str]:
    faults = []
    for module in modules.values():
        where = relative(module.folder / "CMakeLists.txt")
        for use in module.uses:
            if use not in modules:
                faults.append(f"{where}: '{module.name}' uses '{use}', which is no module")
            elif modules[use].folder.parent.name == "backend" and module.name != "assembly":
                faults.append(
                    f"{where}: '{module.name}' uses the driver '{use}'; only assembly may"
                )
        for source in module.sources:
            if not (module.folder / source).is_file():
                faults.append(f"{where}: '{source}' is listed, but there is no such file")
    return faults


def check_cycles(modules: dict[str, Module]) -> list[str]:
    faults, done = [], set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            faults.append(f"src: modules use one another in a circle: {' -> '.join((*path, name))}")
        elif name in modules and name not in done:
            for use in modules[name].uses:
                visit(use, (*path, name))
            done.add(name)

    for name in modules:
        visit(name, ())
    return faults


def check_source(path: pathlib.Path, modules: dict[str, Module]) -> list[str]:
    owner = owner_of(path, modules)
    if owner is None:
        return [f"{relative(path)}: belongs to no module; list it in a millstream_module()"]
    faults = []
    if path.suffix == ".cpp" and path.relative_to(owner.folder).as_posix() not in owner.sources:
        faults.append(f"{relative(path)}: is not in the SOURCES of '{owner.name}'")
    for mark, header in includes_of(path):
        target = ROOT / "src" / header
        if mark == "<" and header.startswith("millstream/"):
            continue
        if mark == '"' and not target.is_file():
            faults.append(
                f'{relative(path)}: "{header}" is no file under src/; write the path from src/'
            )
        elif target.is_file():
            used = owner_of(target, modules)
            if used is None or used.name not in (owner.name, *owner.uses):
                faults.append(
                    f"{relative(path)}: includes '{header}', which '{owner.name}' may not: "
                    f"it is not in its USES list"
                )
    return faults


def check_public(path: pathlib.Path) -> list[str]:
    """Public headers and the bindings: nothing of src/."""
    faults = []
    for mark, header in includes_of(path):
        own = mark == '"' and (path.parent / header).is_file() and "python" in path.parts
        if mark == '"' and not own:
            faults.append(
                f'{relative(path)}: includes "{header}"; only <millstream/...> is allowed'
            )
        if mark == "<" and (ROOT / "src" / header).is_file():
            faults.append(f"{relative(path)}: includes <{header}> of src/")
        if header.startswith("millstream/") and not (ROOT / "include" / header).is_file():
            faults.append(f"{relative(path)}: includes <{header}>, which does not exist")
    return faults


def check_vendors(path: pathlib.Path) -> list[str]:
    name = relative(path)
    return [
        f"{name}: includes '{header}', which only {' and '.join(homes)} may"
        for _, header in includes_of(path)
        for pattern, homes in VENDOR_HOMES.items()
        if pattern.search(header) and not name.startswith(tuple(home + "/" for home in homes))
    ]


def main() -> int:
    modules = read_modules()
    faults = check_lists(modules) + check_cycles(modules)
    for path in files_under(ROOT / "src"):
        faults += check_source(path, modules)
    for folder in ("include", "python/src"):
        for path in files_under(ROOT / folder):
            faults += check_public(path)
    for folder in ("include", "src", "python/src", "tests", "bench", "examples"):
        for path in files_under(ROOT / folder):
            faults += check_vendors(path)
    for fault in faults:
        print(fault)
    print(f"layers: {len(modules)} modules, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
