#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the sources of a build folder, remembering what was clean.

usage: tidy.py <build folder> [--budget SECONDS] [--jobs N] [--all]

A file is checked again only where it, a header of ours that it includes, its compile flags or the
rules changed. When the budget is used up, no new file is started; what is left is counted in the
last line, and does not fail the run (`--all` has no budget).
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
CACHE = CACHE / "millstream" / "tidy"
# What users run. Tests, benches and examples are held by the warnings, which are errors there too.
CHECKED = ("src/",)
KEEP_SECONDS = 60 * 24 * 3600


def dependencies(build: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    """Object file -> files of this project it was compiled from, as Ninja recorded them."""
    listing = subprocess.run(
        ["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    result: dict[str, list[pathlib.Path]] = {}
    for block in listing.split("\n\n"):
        head, *lines = block.strip().splitlines() or [""]
        paths = {(build / line.strip()).resolve() for line in lines}
        result[head.split(":")[0]] = sorted(p for p in paths if p.is_relative_to(ROOT))
    return result


def rules() -> bytes:
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    return version + b"".join(p.read_bytes() for p in sorted(ROOT.rglob(".clang-tidy")))


def key_of(entry: dict[str, str], files: list[pathlib.Path], common: bytes) -> str:
    digest = hashlib.sha256(common)
    digest.update(re.sub(r"\s-o\s.*", "", entry["command"]).replace(str(ROOT), "").encode())
    for path in files:
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def check(build: pathlib.Path, source: str, key: str) -> str:
    """Empty where the file is clean, else what clang-tidy said."""
    done = subprocess.run(
        ["clang-tidy", "--quiet", "-p", str(build), source], capture_output=True, text=True
    )
    if done.returncode != 0:
        return done.stdout + done.stderr
    (CACHE / key).touch()
    return ""


def drop_old() -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    for path in CACHE.iterdir():
        if time.time() - path.stat().st_mtime > KEEP_SECONDS:
            path.unlink(missing_ok=True)


def open_work(build: pathlib.Path) -> tuple[list[tuple[str, str]], int]:
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    known, common = dependencies(build), rules()
    work, clean = [], 0
    for entry in entries:
        source = pathlib.Path(entry["file"])
        if not source.is_relative_to(ROOT):
            continue
        if not source.relative_to(ROOT).as_posix().startswith(CHECKED):
            continue
        files = sorted({source, *known.get(entry["output"], [])})
        key = key_of(entry, files, common)
        if (CACHE / key).exists():
            (CACHE / key).touch()
            clean += 1
        else:
            work.append((entry["file"], key))
    # The library before its tests, in case the budget ends.
    work.sort(key=lambda item: (not item[0].startswith(str(ROOT / "src")), item[0]))
    return work, clean


def unique_findings(answers: list[str | None]) -> list[str]:
    """A fault in a header is found once for each source that includes it."""
    whole = "\n".join(answer.strip() for answer in answers if answer)
    start_of_finding = r"^(?=\S+:\d+:\d+: (?:error|warning): )"
    findings = re.split(start_of_finding, whole, flags=re.MULTILINE)
    return list(dict.fromkeys(finding.strip() for finding in findings))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--budget", type=float, default=420)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    drop_old()
    build = options.build.resolve()
    work, clean = open_work(build)
    end = float("inf") if options.all else time.monotonic() + options.budget

    def run(item: tuple[str, str]) -> str | None:
        return None if time.monotonic() > end else check(build, *item)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        answers = list(pool.map(run, work))
    for finding in unique_findings(answers):
        print(finding)
    left = answers.count(None)
    faulty = sum(bool(answer) for answer in answers)
    print(
        f"tidy: {len(work) - left} files checked, {clean} unchanged since clean, "
        f"{left} left for another run, {faulty} with faults"
    )
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
