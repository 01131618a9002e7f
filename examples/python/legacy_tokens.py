# SPDX-License-Identifier: Apache-2.0
"""Code that was there before is adopted step by step: first its order, then its data.

The old program keeps its arrays to itself and calls its functions one after the other. In the first
step each of its parts is named by a token: the functions stay as they are, and tasks on different
tokens may run at the same time. In the second step the largest array becomes data, so that it may
live on a device, while the rest goes on with tokens. All three give the same result.

    python examples/python/legacy_tokens.py
"""

import millstream as stf
import numpy as np

ROUNDS = 10


class Simulation:
    """The old program. Its functions take no arguments and change what they know of."""

    def __init__(self):
        self.positions = np.linspace(0.0, 1.0, 10_000)
        self.forces = np.zeros_like(self.positions)
        self.energies = []

    def compute_forces(self):
        self.forces[1:-1] = self.positions[2:] - 2 * self.positions[1:-1] + self.positions[:-2]
        self.forces[:] += 0.001 * np.sin(9 * self.positions)

    def move(self):
        self.positions += 0.5 * self.forces

    def note_energy(self):
        self.energies.append(float((self.forces**2).sum()))

    def result(self):
        return self.positions, self.energies


def run_as_it_was():
    old = Simulation()
    for _ in range(ROUNDS):
        old.compute_forces()
        old.note_energy()
        old.move()
    return old.result()


def run_with_tokens(machine):
    """Who uses which part is said by tokens; `note_energy` and `move` may overlap."""
    old = Simulation()
    on_host = stf.exec_place.host()
    with stf.context(machine=machine) as ctx:
        positions, forces, log = (ctx.token() for _ in range(3))
        for _ in range(ROUNDS):
            ctx.submit(old.compute_forces, positions.read(), forces.rw(), place=on_host)
            ctx.submit(old.note_energy, forces.read(), log.rw(), place=on_host)
            ctx.submit(old.move, forces.read(), positions.rw(), place=on_host)
    return old.result()


def move(forces, positions):
    positions += 0.5 * forces


def compute_forces(positions, forces):
    forces[1:-1] = positions[2:] - 2 * positions[1:-1] + positions[:-2]
    forces[:] += 0.001 * np.sin(9 * positions)


def run_with_data(machine):
    """Two functions take their arrays and run on a device; the third is still the old one."""
    old = Simulation()
    device = stf.exec_place.device(0)
    with stf.context(machine=machine) as ctx:
        positions = ctx.logical_data(old.positions, name="positions")
        forces = ctx.logical_data(old.forces, name="forces")
        log = ctx.token()

        def note_energy(values):
            old.energies.append(float((values**2).sum()))

        for _ in range(ROUNDS):
            ctx.submit(compute_forces, positions.read(), forces.rw(), place=device)
            ctx.host_launch(forces.read(), log.rw(), fn=note_energy)
            ctx.submit(move, forces.read(), positions.rw(), place=device)
    return old.result()


def main():
    machine = stf.machine("host", devices=2)
    positions, energies = run_as_it_was()
    for run in (run_with_tokens, run_with_data):
        found_positions, found_energies = run(machine)
        assert np.array_equal(found_positions, positions)
        assert found_energies == energies
    print(
        f"{ROUNDS} rounds, three ways, one result: energy {energies[0]:.3g} to {energies[-1]:.3g}"
    )


if __name__ == "__main__":
    main()
