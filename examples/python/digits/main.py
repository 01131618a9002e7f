# SPDX-License-Identifier: Apache-2.0
"""Classifies handwritten digits with a task flow over all devices of a machine.

    python examples/python/digits/main.py [--devices N] [--tile N] [--augment K] ...

Prints accuracy, the difference to the plain SciPy solution, what the runtime did, and how long it
took against the same tiles one after the other; writes graph, timeline and pictures to --out.
"""

import sys
import time

import memory
import numpy as np
import options
import reference
import report
from data import Digits, load
from flow import RidgeFlow, count_tasks
from progress import Progress
from sequential import SequentialContext
from threadpoolctl import threadpool_limits
from tiles import BlockCyclic, good_tile

# Chosen on other splits than the default one; anything near does as well.
GAMMA = 0.2
RIDGE = 0.02
# A tile function that comes back from BLAS has to take the interpreter lock again. By default a
# thread that has it may keep it for 5 ms, longer than many tiles take.
SWITCH_SECONDS = 0.0005


def main(arguments=None):
    chosen = options.parse(arguments)
    stf = import_millstream()
    machine, layout = open_machine(stf, chosen)
    kernels = options.kernels(chosen)
    digits = load(chosen.samples, chosen.augment, chosen.seed)
    rows = len(digits.train)
    chosen.tile = chosen.tile or good_tile(rows, machine.device_count, kernels.LARGEST_TILE)
    check_memory(rows, chosen.tile, layout, kernels)
    print(describe(digits, chosen, machine, layout, kernels), flush=True)

    sys.setswitchinterval(SWITCH_SECONDS)
    job = Job(digits, kernels, layout, chosen.tile)
    # One BLAS thread per tile call, in both runs: the flow is what makes them overlap.
    with threadpool_limits(1, user_api="blas"):
        facts, weights, scores = run_on_machine(stf, machine, job, chosen)
        if not np.isfinite(weights).all():
            options.fail("a tile was not positive definite, so that there are no weights")
        facts["sequential_seconds"] = run_one_by_one(job) if chosen.sequential else None
    facts.update(compare(digits, weights, scores, facts, chosen))
    facts["peak_bytes"] = memory.peak_bytes()

    print("\n".join(report.lines(facts)))
    report.save_facts(facts, chosen.out / "report.json")
    report.save_digits(digits, scores.argmax(axis=1), chosen.out / "digits.png")
    print(f"written to {chosen.out}: " + ", ".join(sorted(f.name for f in chosen.out.iterdir())))
    return 0


def import_millstream():
    try:
        import millstream
    except ImportError as reason:
        options.fail(f"the package 'millstream' cannot be imported ({reason}); run 'pip install .'")
    return millstream


def open_machine(stf, chosen):
    """The machine, and how tiles are dealt out over its devices."""
    try:
        machine = stf.machine(chosen.machine, devices=chosen.devices)
        return machine, BlockCyclic(machine.device_count)
    except (stf.UnavailableError, ValueError) as reason:
        return options.fail(str(reason))


def check_memory(rows, tile, layout, kernels):
    devices = layout.rows * layout.columns
    need, have = memory.tiles_bytes(rows, tile, layout), kernels.free_bytes(devices)
    if have is not None and need > have:
        options.fail(
            f"{rows:,} training images on {devices} devices need "
            f"{report.size(need)} and {report.size(have)} are free; "
            "give a smaller --augment, --samples or --devices"
        )


def describe(digits, chosen, machine, layout, kernels):
    rows, held_out = len(digits.train), len(digits.test)
    count = -(-rows // chosen.tile)
    return (
        f"{chosen.samples:,} digits: {rows:,} to train on, {held_out:,} held out; "
        f"{rows:,} x {rows:,} matrix in {count * (count + 1) // 2:,} tiles of {chosen.tile}\n"
        f"machine '{machine.name}', {machine.device_count} devices as a {layout} grid; "
        f"tile functions of {kernels.NAME}"
    )


class Job:
    """One flow, for either kind of context."""

    def __init__(self, digits, kernels, layout, tile):
        self.digits, self.kernels, self.layout, self.tile = digits, kernels, layout, tile

    def run(self, context, place_of, title):
        """(weights, scores, tasks, seconds)."""
        total = count_tasks(len(self.digits.train), len(self.digits.test), self.tile)
        with Progress(title, total) as progress:
            flow = self.flow(context, place_of, self.tile, progress.done)
            start = time.perf_counter()
            weights, scores = flow.run(self.digits)
            seconds = time.perf_counter() - start
        return weights, scores, progress.count, seconds

    def warm_up(self, context, place_of):
        """The same on a few images, untimed: libraries allocate and load much at first use."""
        tile = min(self.tile, self.kernels.WARM_UP_TILE)
        few = tile * (self.layout.rows + 1)
        part = Digits(*(column[:few] for column in self.digits))
        self.flow(context, place_of, tile).run(part)

    def flow(self, context, place_of, tile, done=None):
        return RidgeFlow(context, self.kernels, self.layout, place_of, tile, GAMMA, RIDGE, done)


def run_on_machine(stf, machine, job, chosen):
    with stf.context(machine=machine) as context:
        job.warm_up(context, stf.exec_place.device)
    with stf.context(machine=machine, trace=chosen.trace) as context:
        weights, scores, tasks, seconds = job.run(context, stf.exec_place.device, "task flow")
    done = context.stats()
    facts = {
        "machine": machine.name,
        "library": job.kernels.NAME,
        "devices": machine.device_count,
        "tile": chosen.tile,
        "train": len(job.digits.train),
        "tasks": tasks,
        "edges": None,
        "copies": done["copies"],
        "copied_bytes": done["copied_bytes"],
        "seconds": seconds,
    }
    if chosen.trace:
        graph, timeline = context.graph(), context.trace()
        facts["edges"] = len(graph.edges)
        graph.save(chosen.out / "dag.svg")
        timeline.save(chosen.out / "trace.json")
        timeline.save(chosen.out / "timeline.html")
    return facts, weights, scores


def run_one_by_one(job):
    job.warm_up(SequentialContext(job.kernels), int)
    return job.run(SequentialContext(job.kernels), int, "same tiles one by one")[3]


def compare(digits, weights, scores, facts, chosen):
    """Against the labels, the plain solution, and the run without the runtime."""
    correct = int((scores.argmax(axis=1) == digits.test_labels).sum())
    sequential = facts["sequential_seconds"]
    found = {
        "held_out": len(digits.test),
        "correct": correct,
        "accuracy": correct / len(digits.test),
        "largest_weight": float(np.abs(weights).max()),
        "difference": None,
        "reference_note": "as asked",
        "residual": None,
        "speed": sequential / facts["seconds"] if sequential else None,
    }
    have, need = memory.available_bytes(), memory.matrix_bytes(len(digits.train))
    if chosen.reference and (have is None or need < have):
        print(f"the plain SciPy solution of the same system ({report.size(need)}) ...", flush=True)
        plain = reference.solve(digits, GAMMA, RIDGE)
        found["difference"] = float(np.abs(plain - weights).max())
        return found
    if chosen.reference:
        found["reference_note"] = f"it needs {report.size(need)} of memory"
    found["residual"] = reference.residual(digits, weights, GAMMA, RIDGE)
    return found


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MemoryError as reason:
        options.fail(f"{reason} (a smaller --augment, --samples or --devices needs less)")
    except KeyboardInterrupt:
        sys.exit("digits: interrupted")
