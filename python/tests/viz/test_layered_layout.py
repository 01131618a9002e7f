# SPDX-License-Identifier: Apache-2.0
import random

import pytest
from millstream.viz.layout import acyclic, crossings, layers, layout, order, spread


def test_layers_are_longest_paths():
    assert layers([1, 2, 3, 4], [(1, 2), (2, 3), (1, 3), (3, 4)]) == {1: 0, 2: 1, 3: 2, 4: 3}


def test_sources_move_down_to_their_first_user():
    assert layers([1, 2, 3, 4], [(1, 2), (2, 3), (4, 3)]) == {1: 0, 2: 1, 3: 2, 4: 1}


def test_nodes_without_edges_stay_on_top():
    assert layers([1, 2, 3], [(1, 2)]) == {1: 0, 2: 1, 3: 0}


def test_a_cycle_is_broken_where_it_closes():
    assert acyclic([1, 2, 3], [(1, 2), (2, 3), (3, 1)]) == [(1, 2), (2, 3), (1, 3)]


def test_graphs_without_cycle_keep_their_edges():
    edges = [(1, 3), (2, 3), (1, 2)]
    assert acyclic([1, 2, 3], edges) == edges


def test_crossings_are_counted():
    assert crossings([[1, 2], [3, 4]], {1: [4], 2: [3], 3: [], 4: []}) == 1
    assert crossings([[1, 2], [3, 4]], {1: [3, 4], 2: [3, 4], 3: [], 4: []}) == 1
    assert crossings([[1, 2], [3, 4]], {1: [3], 2: [4], 3: [], 4: []}) == 0


def test_ordering_removes_avoidable_crossings():
    rows = order(
        [[1, 2, 3], [6, 5, 4]],
        {1: [], 2: [], 3: [], 4: [1], 5: [2], 6: [3]},
        {1: [4], 2: [5], 3: [6], 4: [], 5: [], 6: []},
    )
    assert rows == [[1, 2, 3], [4, 5, 6]]


def test_ordering_never_makes_it_worse():
    for seed in range(20):
        dice = random.Random(seed)
        rows = [list(range(8)), list(range(8, 16)), list(range(16, 24))]
        after = {n: dice.sample(rows[n // 8 + 1], 2) if n < 16 else [] for n in range(24)}
        before = {n: [m for m in after if n in after[m]] for n in range(24)}
        found = order(rows, before, after)
        assert crossings(found, after) <= crossings(rows, after), f"seed {seed}"
        assert [sorted(row) for row in found] == rows


def test_spread_keeps_order_and_gaps_and_moves_little():
    assert spread([0.0, 0.0], [10.0]) == [-5.0, 5.0]
    assert spread([0.0, 100.0], [10.0]) == [0.0, 100.0]
    assert spread([5.0], []) == [5.0]
    assert spread([50.0, 0.0, 100.0], [10.0, 10.0]) == [20.0, 30.0, 100.0]


@pytest.mark.parametrize("seed", range(10))
def test_boxes_never_overlap_and_edges_end_at_their_boxes(seed):
    dice = random.Random(seed)
    sizes = {n: (dice.choice([40.0, 90.0, 150.0]), 30.0) for n in range(40)}
    edges = [(a, b) for a in range(40) for b in range(a + 1, 40) if dice.random() < 0.08]
    placed = layout(sizes, edges)
    for a in sizes:
        for b in range(a):
            apart_x = abs(placed.at[a][0] - placed.at[b][0]) >= (sizes[a][0] + sizes[b][0]) / 2
            apart_y = abs(placed.at[a][1] - placed.at[b][1]) >= 30.0
            assert apart_x or apart_y
    for (source, target), route in zip(edges, placed.routes, strict=True):
        assert route[0] == (placed.at[source][0], placed.at[source][1] + 15.0)
        assert route[-1] == (placed.at[target][0], placed.at[target][1] - 15.0)
    for (x, y), (w, h) in zip(placed.at.values(), sizes.values(), strict=True):
        assert w / 2 <= x + 1e-9
        assert x + w / 2 <= placed.width + 1e-9
        assert h / 2 <= y <= placed.height - h / 2


def test_turned_edges_still_run_from_source_to_target():
    placed = layout({1: (40.0, 30.0), 2: (40.0, 30.0)}, [(1, 2), (2, 1)])
    there, back = placed.routes
    assert back == there[::-1]


def test_equal_input_gives_equal_pictures():
    sizes, edges = (
        dict.fromkeys(range(9), (50.0, 30.0)),
        [(n, n // 2 + 5) for n in range(7) if n < n // 2 + 5],
    )
    assert layout(sizes, edges) == layout(sizes, edges)


def test_nothing_gives_an_empty_layout():
    assert layout({}, []).at == {}
