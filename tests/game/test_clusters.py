"""Clusters of beliefs against the same choice in plain loops, and what merging loses against its definition."""

import math
from collections import defaultdict

import numpy as np
import pytest

import veil
from tests.game.cases import agent_of, first_or_last
from veil.common.logs import conditional_entropy_bits
from veil.engine.hidden import build
from veil.engine.kernel import num_rows
from veil.game import clusters
from veil.game.arrivals import make_arrivals
from veil.game.clusters import cluster_beliefs
from veil.game.pairs import LastEvents, make_pairs
from veil.game.responses import AgentProblem


def divergence(one: np.ndarray, other: np.ndarray) -> float:
    """`KL(one ‖ other)` in bits."""
    return math.fsum(p * math.log2(p / q) for p, q in zip(one.tolist(), other.tolist(), strict=True) if p > 0)


def plain_clusters(weights: np.ndarray, most: int) -> list[int]:
    """Centres one after the other where the loss is largest, then each belief to the nearest mean, twice."""
    masses = weights.sum(axis=1)
    beliefs = weights / masses[:, None]
    overall = masses @ beliefs / masses.sum()
    smooth = clusters._SMOOTHING

    def softened(belief: np.ndarray) -> np.ndarray:
        return (1 - smooth) * belief + smooth * overall

    centres = [int(np.argmax(masses))]
    own = [divergence(belief, softened(beliefs[centres[0]])) for belief in beliefs]
    nearest = [0] * len(beliefs)
    while len(centres) < most:
        chosen = int(np.argmax([mass * loss for mass, loss in zip(masses, own, strict=True)]))
        centres.append(chosen)
        for row, belief in enumerate(beliefs):
            loss = 0.0 if row == chosen else divergence(belief, softened(beliefs[chosen]))
            if loss < own[row]:
                nearest[row], own[row] = len(centres) - 1, loss
    for _ in range(clusters._ROUNDS):
        members = defaultdict(list)
        for row, cluster in enumerate(nearest):
            members[cluster].append(row)
        means = {one: softened(weights[rows].sum(axis=0) / masses[rows].sum()) for one, rows in members.items()}
        nearest = [min(means, key=lambda one, belief=belief: divergence(belief, means[one])) for belief in beliefs]
    return nearest


@pytest.mark.parametrize("seed", range(12))
def test_clusters_are_those_of_plain_loops(seed: int):
    """The same groups, whatever their numbers; numbers begin at 0 and have no gaps."""
    rng = np.random.default_rng([seed, 7])
    beliefs = rng.dirichlet(np.full(4, 0.4), size=14)
    beliefs[beliefs < 0.02] = 0.0
    weights = beliefs / beliefs.sum(axis=1, keepdims=True) * rng.uniform(0.01, 1.0, size=(14, 1))
    for most in (1, 2, 3, 6, 13):
        found, expected = cluster_beliefs(weights, most).tolist(), plain_clusters(weights, most)
        assert set(found) == set(range(max(found) + 1))
        assert max(found) < most
        together = {(i, j) for i in range(14) for j in range(14) if found[i] == found[j]}
        assert together == {(i, j) for i in range(14) for j in range(14) if expected[i] == expected[j]}
    different = len({tuple(one) for one in (weights / weights.sum(axis=1, keepdims=True)).round(12).tolist()})
    assert len(set(cluster_beliefs(weights, 14).tolist())) == different


def test_a_cluster_may_lose_all_its_beliefs():
    """To the means of others, after the first time they are moved; fewer clusters are left."""
    rng = np.random.default_rng([2332, 7])
    size, rows = int(rng.integers(2, 5)), int(rng.integers(4, 14))
    beliefs = rng.dirichlet(np.full(size, 0.4), size=rows)
    beliefs[beliefs < 0.02] = 0
    weights = beliefs / beliefs.sum(axis=1, keepdims=True) * rng.uniform(0.01, 1, size=(rows, 1))
    found, expected = cluster_beliefs(weights, 4).tolist(), plain_clusters(weights, 4)
    assert set(found) == {0, 1, 2}
    assert [[one == other for one in found] for other in found] == [[a == b for a in expected] for b in expected]


def conditional_bits(law: dict[tuple, float], given: int) -> float:
    """`H(last entry | the entries before it)` of a law over tuples, the first `given` of which are known."""
    known: defaultdict[tuple, float] = defaultdict(float)
    for key, mass in law.items():
        known[key[:given]] += mass
    return math.fsum(-mass * math.log2(mass / known[key[:given]]) for key, mass in law.items() if mass > 0)


@pytest.mark.parametrize("seed", range(8))
def test_what_merging_loses_is_the_information_of_where_one_came_from(seed: int):
    """`I(X'; C, O' | C') = H(X'|C') − H(X'|C, O')` from the law of (node, event, state) in a dictionary."""
    problem, _ = first_or_last(seed)
    pairs = make_pairs(build(problem), LastEvents(1 + seed % 2))
    agent = AgentProblem(problem, pairs, make_arrivals(pairs))
    rng = np.random.default_rng([seed, 5])
    for time, (part, mass) in enumerate(zip(agent.arrivals, agent.outcome(agent.uniform()).arrivals, strict=True)):
        after = pairs.layers[time + 1]
        gone = after.node[part.pair] == after.node[part.pair[0]] if len(set(after.node.tolist())) > 1 else mass < 0
        mass = np.where(gone | (rng.random(len(mass)) < 0.2), 0.0, mass)  # some arrivals, and all of one node, never
        apart: defaultdict[tuple, float] = defaultdict(float)
        merged: defaultdict[tuple, float] = defaultdict(float)
        for edge, pair, weight in zip(part.edge.tolist(), part.pair.tolist(), mass.tolist(), strict=True):
            node, event = int(part.node[edge]), int(part.event[edge])
            assert pairs.graph.following[time][node, event] == after.node[pair] == part.target[pair]
            state = int(after.x[pair]), int(after.z[pair])
            apart[node, event, state] += weight
            merged[int(after.node[pair]), state] += weight
        lost = conditional_bits(merged, 1) - conditional_bits(apart, 2)
        assert part.lost_bits(mass)[0] == pytest.approx(lost, abs=1e-12)


def test_a_policy_moved_to_clusters_is_the_mean_of_what_it_does_in_each():
    """At each pair of the clusters: the actions of the old pairs that lie in it, weighted by how likely each is there."""
    problem = veil.gallery.load("paper-last-state", horizon=4)
    agent = agent_of(problem, LastEvents(2))
    rng = np.random.default_rng(3)
    tables = [table / table.sum(axis=0) for table in (even * rng.random(even.shape) for even in agent.uniform())]
    clustered = clusters.clustered_graph(agent, tables, 3)
    new = AgentProblem(problem, make_pairs(build(problem), clustered.memory))
    moved = clustered.moved(agent.pairs, tables, new)
    for time, (table, even) in enumerate(zip(moved, new.uniform(), strict=True)):
        messages, old, layer = clustered.messages[time].toarray(), agent.pairs.layers[time], new.pairs.layers[time]
        assert messages.sum() == pytest.approx(1.0)
        for column, (node, x) in enumerate(zip(layer.node.tolist(), layer.x.tolist(), strict=True)):
            weights = np.where(old.x == x, messages[node], 0.0)
            expected = tables[time] @ weights / weights.sum() if weights.sum() > 0 else even[:, column]
            np.testing.assert_allclose(table[:, column], expected, atol=1e-12)


def test_a_policy_without_decisions_hides_what_the_first_event_leaves():
    problem = veil.gallery.load("paper-initial-state", horizon=0)
    pairs = make_pairs(build(problem), LastEvents(0))
    hidden = pairs.hidden
    found = clusters.opacity_lower_bound(pairs, [])
    assert found.bits == pytest.approx(conditional_entropy_bits(hidden.root.T @ hidden.label), abs=1e-12)
    assert (found.lost_bits, found.num_beliefs) == (0.0, 0)


def test_each_first_event_has_a_node_of_its_own_and_clusters_no_more_than_asked_for():
    """Numbers without gaps, and -1 where an event is not possible: of the first event, and of each after it."""
    problem = veil.gallery.load("paper-initial-state", horizon=3)
    agent = agent_of(problem, LastEvents(1))
    clustered = clusters.clustered_graph(agent, agent.uniform(), 3)
    graph, hidden = clustered.memory._graph, agent.pairs.hidden
    possible = hidden.root.any(axis=0)
    assert not possible.all()
    assert graph.first[possible].tolist() == list(range(possible.sum()))
    assert (graph.first[~possible] == -1).all()
    assert graph.sizes == (possible.sum(), 3, 3, 3)
    for table, size, after in zip(graph.following, graph.sizes, graph.sizes[1:], strict=False):
        assert table.shape == (size, hidden.num_events)
        assert set(table.ravel().tolist()) - {-1} == set(range(after))
        assert table.min() == -1  # no event is possible everywhere
    assert [num_rows(part) for part in clustered.messages] == list(graph.sizes)
    for part in clustered.messages:
        assert part.sum() == pytest.approx(1.0)
