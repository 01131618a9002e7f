# SPDX-License-Identifier: Apache-2.0
"""Measures the library on a GPU: the programs of bench/cuda and bench/python, one after the other.

    python bench/run.py --build build/release [--python PYTHON] [--out DIR] [--runs N] [--quick]

Builds nothing: `--build` has bench/millstream_bench_cuda, and PYTHON can import millstream. Writes
bench.json and bench.md, a table for docs/gpu-results.md, to `--out` (default: $OUT, else
out/bench). Ends with 77 where there is no GPU, and with 1 where a program failed. Values past a
budget are marked, not errors: they are those of one server with one H200.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(command: list[str], rows_file: Path) -> tuple[int, dict]:
    """The exit code of the program and what it wrote."""
    rows_file.unlink(missing_ok=True)
    print("+", " ".join(command), flush=True)
    code = subprocess.run([*command, "--json", str(rows_file)], check=False).returncode
    return code, json.loads(rows_file.read_text()) if rows_file.exists() else {"rows": []}


def ratio(row: dict) -> float | None:
    pairs = list(zip(row["values"], row["by_hand"], strict=False))
    return statistics.median(mine / hand for mine, hand in pairs) if pairs else None


def added(row: dict) -> float | None:
    pairs = list(zip(row["values"], row["by_hand"], strict=False))
    return statistics.median(mine - hand for mine, hand in pairs) if pairs else None


def budget(row: dict) -> tuple[str, bool]:
    """What is allowed, in words, and whether it was kept."""
    value = statistics.median(row["values"])
    for key, found, text in (
        ("budget", value, "{:g}"),
        ("ratio_budget", ratio(row), "{:.3g} x"),
        ("over_budget", added(row), "+ {:g}"),
    ):
        allowed = row.get(key)
        if allowed:
            return text.format(allowed), found is not None and found <= allowed
    return "", True


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(rows: list[dict]) -> list[str]:
    lines = [
        "| what | us | spread | by hand | ratio | budget | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        values, twin = row["values"], row["by_hand"]
        allowed, kept = budget(row)
        cells = [
            row["name"],
            short(statistics.median(values)),
            f"{short(min(values))} - {short(max(values))}",
            short(statistics.median(twin)) if twin else "",
            f"{ratio(row):.3f}" if twin else "",
            allowed,
            "" if kept else "**over**",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def commit() -> str:
    """The commit of the sources, "+" behind it where files differ; "unknown" outside of git."""

    def ask(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=HERE, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    found = ask("rev-parse", "--short", "HEAD")
    return (found + ("+" if ask("status", "--porcelain", "-uno") else "")) or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, required=True, help="build folder")
    parser.add_argument("--python", default=sys.executable, help="interpreter with millstream")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or "out/bench"))
    parser.add_argument("--runs", type=int, default=15, help="values of each row")
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="to see that everything runs")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    more = ["--quick"] if chosen.quick else ["--runs", str(chosen.runs)]
    if chosen.only:
        more += ["--only", chosen.only]
    programs = [
        [str(chosen.build / "bench" / "millstream_bench_cuda")],
        [chosen.python, str(HERE / "python" / "gpu_cost.py")],
    ]
    rows: list[dict] = []
    machine, codes = "unknown", []
    for program in programs:
        code, found = run([*program, *more], chosen.out / "rows.json")
        codes.append(code)
        rows += found["rows"]
        machine = found.get("machine", machine)
    (chosen.out / "rows.json").unlink(missing_ok=True)
    if all(code == 77 for code in codes):
        return 77
    head = f"Commit {commit()}, {machine}, {os.cpu_count()} CPU cores."
    (chosen.out / "bench.md").write_text("\n".join([head, "", *table(rows), ""]))
    facts = {"commit": commit(), "machine": machine, "cpus": os.cpu_count(), "rows": rows}
    (chosen.out / "bench.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"written to {chosen.out}: bench.json, bench.md")
    return 0 if all(code == 0 for code in codes) else 1


if __name__ == "__main__":
    sys.exit(main())
