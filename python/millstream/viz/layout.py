# SPDX-License-Identifier: Apache-2.0
"""A layered layout (after Sugiyama) for graphs of some hundred nodes, without any package.

Four steps: cycles are broken by turning edges around; longest paths give the layers; sweeps that
sort each layer by the mean position of its neighbours take out crossings; a least-squares pass
per layer sets x positions without changing the order. Long edges run through invisible points,
one per layer they cross. The result depends on nothing but the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Links = Sequence[tuple[int, int]]

_SWEEPS = 12
_MOST_BENDS = 20_000  # beyond, long edges are drawn straight across: a sweep must stay affordable
GAP_X, GAP_Y = 18.0, 46.0
_BEND_WIDTH = 6.0


@dataclass(frozen=True)
class Layout:
    width: float
    height: float
    at: dict[int, tuple[float, float]]
    """Centre of each node."""
    routes: list[list[tuple[float, float]]]
    """For each edge, in the order given, its points from source to target."""


def acyclic(nodes: Sequence[int], edges: Links) -> list[tuple[int, int]]:
    """The edges, those that close a cycle turned around (in the order nodes are met)."""
    following: dict[int, list[int]] = {node: [] for node in nodes}
    for source, target in edges:
        following[source].append(target)
    open_nodes: set[int] = set()
    done: set[int] = set()
    backward: set[tuple[int, int]] = set()
    for root in nodes:
        if root in done:
            continue
        stack = [(root, iter(following[root]))]
        open_nodes.add(root)
        while stack:
            node, rest = stack[-1]
            for target in rest:
                if target in open_nodes:
                    backward.add((node, target))
                elif target not in done:
                    open_nodes.add(target)
                    stack.append((target, iter(following[target])))
                    break
            else:
                stack.pop()
                open_nodes.discard(node)
                done.add(node)
    return [(t, s) if (s, t) in backward else (s, t) for s, t in edges]


def layers(nodes: Sequence[int], edges: Links) -> dict[int, int]:
    """Longest path from the top; nodes without predecessors then move down to their first user."""
    before, after = _neighbours(nodes, edges)
    level = dict.fromkeys(nodes, 0)
    waiting = {node: len(before[node]) for node in nodes}
    ready = [node for node in nodes if waiting[node] == 0]
    for node in ready:  # grows while it is walked
        for target in after[node]:
            level[target] = max(level[target], level[node] + 1)
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    for node in nodes:
        if not before[node] and after[node]:
            level[node] = min(level[target] for target in after[node]) - 1
    return level


def order(
    rows: list[list[int]], before: Mapping[int, list[int]], after: Mapping[int, list[int]]
) -> list[list[int]]:
    """Rows sorted by barycentre, down and up in turn; the best arrangement seen is kept."""
    best, fewest = [list(row) for row in rows], crossings(rows, after)
    rows = [list(row) for row in rows]
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        for index in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            fixed, links = rows[index - 1 if down else index + 1], before if down else after
            place = {node: i for i, node in enumerate(fixed)}
            _sort_by_barycentre(rows[index], links, place)
        count = crossings(rows, after)
        if count < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def _sort_by_barycentre(
    row: list[int], links: Mapping[int, list[int]], place: Mapping[int, int]
) -> None:
    """Nodes without neighbours keep their relative position."""
    centre: dict[int, float] = {}
    for i, node in enumerate(row):
        near = [place[other] for other in links[node]]
        centre[node] = sum(near) / len(near) if near else float(i)
    row.sort(key=centre.__getitem__)


def crossings(rows: Sequence[Sequence[int]], after: Mapping[int, list[int]]) -> int:
    """How many pairs of edges between neighbouring rows cross: inversions, by a Fenwick tree."""
    total = 0
    for upper, lower in pairwise(rows):
        place = {node: i for i, node in enumerate(lower)}
        ends = [p for node in upper for p in sorted(place[t] for t in after[node])]
        tree = [0] * (len(lower) + 1)
        for seen, end in enumerate(ends):
            i, not_after = end + 1, 0
            while i > 0:
                not_after += tree[i]
                i -= i & -i
            total += seen - not_after
            i = end + 1
            while i <= len(lower):
                tree[i] += 1
                i += i & -i
    return total


def spread(wanted: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Positions closest to `wanted` (in squares) where i+1 lies at least gaps[i] right of i."""
    offset = [0.0]
    for gap in gaps:
        offset.append(offset[-1] + gap)
    blocks: list[tuple[float, int]] = []  # (mean, length), means rising
    for want, shift in zip(wanted, offset, strict=True):
        mean, length = want - shift, 1
        while blocks and blocks[-1][0] > mean:
            other, count = blocks.pop()
            mean = (mean * length + other * count) / (length + count)
            length += count
        blocks.append((mean, length))
    flat = [mean for mean, length in blocks for _ in range(length)]
    return [x + shift for x, shift in zip(flat, offset, strict=True)]


def layout(sizes: Mapping[int, tuple[float, float]], edges: Links) -> Layout:
    """Places boxes of the given (width, height) and routes the edges between them."""
    nodes = list(sizes)
    if not nodes:
        return Layout(0.0, 0.0, {}, [])
    straight = acyclic(nodes, edges)
    level = layers(nodes, straight)
    chains, width = _with_bends(straight, level, {node: sizes[node][0] for node in nodes})
    rows: list[list[int]] = [[] for _ in range(max(level.values()) + 1)]
    for node in width:
        rows[level[node]].append(node)
    steps = [pair for chain in chains for pair in pairwise(chain)]
    steps = [pair for pair in steps if level[pair[1]] == level[pair[0]] + 1]
    before, after = _neighbours(list(width), steps)
    rows = order(rows, before, after)
    x = _columns(rows, before, after, width)
    return _finish(sizes, edges, straight, chains, level, x, len(rows))


def _neighbours(
    nodes: Iterable[int], edges: Links
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    before: dict[int, list[int]] = {node: [] for node in nodes}
    after: dict[int, list[int]] = {node: [] for node in before}
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    return before, after


def _with_bends(
    edges: Links, level: dict[int, int], width: dict[int, float]
) -> tuple[list[list[int]], dict[int, float]]:
    """Each edge as a chain of nodes and bends; adds the bends to `level` and `width`."""
    fresh = max(width) + 1
    needed = sum(level[t] - level[s] - 1 for s, t in edges)
    chains = []
    for source, target in edges:
        chain = [source]
        if needed <= _MOST_BENDS:
            for row in range(level[source] + 1, level[target]):
                level[fresh], width[fresh] = row, _BEND_WIDTH
                chain.append(fresh)
                fresh += 1
        chains.append([*chain, target])
    return chains, width


def _columns(
    rows: Sequence[Sequence[int]],
    before: Mapping[int, list[int]],
    after: Mapping[int, list[int]],
    width: Mapping[int, float],
) -> dict[int, float]:
    """x of each node: a few passes towards the mean of the neighbours, order kept."""
    gaps = [[(width[a] + width[b]) / 2 + GAP_X for a, b in pairwise(row)] for row in rows]
    x: dict[int, float] = {}
    for row, gap in zip(rows, gaps, strict=True):
        x.update(zip(row, spread([0.0] * len(row), gap), strict=True))
    for sweep in range(_SWEEPS):
        links = before if sweep % 2 == 0 else after
        numbers = range(len(rows)) if sweep % 2 == 0 else range(len(rows) - 1, -1, -1)
        for i in numbers:
            wanted = [
                sum(x[o] for o in links[node]) / len(links[node]) if links[node] else x[node]
                for node in rows[i]
            ]
            x.update(zip(rows[i], spread(wanted, gaps[i]), strict=True))
    left = min(x[node] - width[node] / 2 for node in x)
    return {node: value - left for node, value in x.items()}


def _finish(
    sizes: Mapping[int, tuple[float, float]],
    edges: Links,
    straight: Links,
    chains: Sequence[Sequence[int]],
    level: Mapping[int, int],
    x: Mapping[int, float],
    count: int,
) -> Layout:
    box = max(height for _, height in sizes.values())
    y = [box / 2 + row * (box + GAP_Y) for row in range(count)]
    at = {node: (x[node], y[level[node]]) for node in sizes}
    routes = []
    for edge, drawn, chain in zip(edges, straight, chains, strict=True):
        source, target = drawn
        points = [(x[source], y[level[source]] + sizes[source][1] / 2)]
        points += [(x[bend], y[level[bend]]) for bend in chain[1:-1]]
        points.append((x[target], y[level[target]] - sizes[target][1] / 2))
        routes.append(points if drawn == edge else points[::-1])
    width = max(x[node] + sizes[node][0] / 2 for node in sizes)
    width = max([width, *(px for route in routes for px, _ in route)])
    return Layout(width, y[-1] + box / 2, at, routes)
