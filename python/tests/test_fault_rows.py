# SPDX-License-Identifier: Apache-2.0
"""Each row of the list of known faults that contexts can show is a test.

Such a test has the marker `fault`, or the number in its name: ``grep -rn A25 python/tests``.
"""

import pathlib
import re

import pytest

ROWS = [1, 3, 6, 7, *range(10, 18), 20, 25, 28, *range(30, 33), *range(34, 47)]
HERE = pathlib.Path(__file__).resolve()


@pytest.fixture(scope="module")
def shown():
    found = set()
    for path in HERE.parent.rglob("test_*.py"):
        if path != HERE:
            text = path.read_text(encoding="utf-8")
            found.update(map(int, re.findall(r"def test_a(\d\d)_", text)))
            for ids in re.findall(r"@pytest\.mark\.fault\((.*?)\)", text):
                found.update(map(int, re.findall(r"A(\d\d)", ids)))
    return found


@pytest.mark.parametrize("row", ROWS)
def test_row_is_a_test(shown, row):
    assert row in shown
