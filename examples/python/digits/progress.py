# SPDX-License-Identifier: Apache-2.0
"""Progress of a run: a bar on a terminal, a few lines elsewhere."""

import sys
import threading


class Progress:
    """Counts finished tasks from any thread and shows them until the `with` block ends.

    `done` is called by tile functions, on the devices' threads: appending to a list is atomic and
    costs next to nothing, and only the display thread looks at the length.
    """

    def __init__(self, title, total, stream=None):
        self.title = title
        self.total = total
        self.stream = stream or sys.stderr
        self._bar = _bar(self.stream)  # here, since importing it takes longer than a small job
        self._marks = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def done(self):
        self._marks.append(None)

    @property
    def count(self):
        return len(self._marks)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _show(self):
        if self._bar is None:
            self._lines()
            return
        with self._bar as bar:
            row = bar.add_task(self.title, total=self.total)
            while not self._stop.wait(0.1):
                bar.update(row, completed=self.count)
            bar.update(row, completed=self.count)

    def _lines(self):
        shown = 0
        while True:
            ended = self._stop.wait(0.2)
            quarter = 4 * self.count // max(self.total, 1)
            if quarter > shown:
                shown = quarter
                print(f"{self.title}: {25 * quarter:3d} %", file=self.stream, flush=True)
            if ended:
                return


def _bar(stream):
    """A bar of the `rich` package, or None where there is no terminal or no such package."""
    if not stream.isatty():
        return None
    try:
        from rich import console, progress
    except ImportError:
        return None
    return progress.Progress(
        progress.TextColumn("{task.description:<24}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("tasks"),
        progress.TimeElapsedColumn(),
        console=console.Console(file=stream),
    )
