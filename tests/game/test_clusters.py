"""Clusters of beliefs against the same choice in plain loops, and what merging loses against its definition."""

import math
from collections import defaultdict

import numpy as np
import pytest

import veil
from tests.game.cases import agent_of, first_or_last
from tests.seeds import in_blocks
from veil.common.logs import conditional_entropy_bits
from veil.engine.compile import build
from veil.game import clusters
from veil.game.arrivals import make_arrivals
from veil.game.clusters import cluster_beliefs
from veil.game.pairs import LastEvents, make_pairs
from veil.game.responses import AgentProblem


def lost_bits(weights: np.ndarray, cluster: np.ndarray) -> float:
    """`Σ mass · KL(belief ‖ mean belief of its cluster)`, in bits."""
    total = 0.0
    for one in set(cluster.tolist()):
        rows = weights[cluster == one]
        mean = rows.sum(axis=0) / rows.sum()
        share = rows / rows.sum(axis=1, keepdims=True)
        ratio = np.where(share > 0, share / np.where(mean > 0, mean, 1.0), 1.0)
        total += float((rows * np.log2(ratio)).sum())
    return total


def test_clusters_lose_less_than_clusters_at_random():
    """Numbers begin at 0 and have no gaps; with as many clusters as beliefs nothing is lost."""
    for seed in range(12):
        rng = np.random.default_rng([seed, 7])
        beliefs = rng.dirichlet(np.full(4, 0.4), size=14)
        beliefs[beliefs < 0.02] = 0.0
        weights = beliefs / beliefs.sum(axis=1, keepdims=True) * rng.uniform(0.01, 1.0, size=(14, 1))
        losses = []
        for most in (1, 2, 3, 6, 14):
            found = cluster_beliefs(weights, most)
            assert set(found.tolist()) == set(range(max(found.tolist()) + 1)), seed
            assert max(found.tolist()) < most, seed
            losses.append(lost_bits(weights, found))
            if 1 < most < 14:
                chance = [lost_bits(weights, rng.integers(most, size=14)) for _ in range(50)]
                assert losses[-1] < np.median(chance), (seed, most)
        assert losses[-1] < 1e-9, seed


def conditional_bits(law: dict[tuple, float], given: int) -> float:
    """`H(last entry | the entries before it)` of a law over tuples, the first `given` of which are known."""
    known: defaultdict[tuple, float] = defaultdict(float)
    for key, mass in law.items():
        known[key[:given]] += mass
    return math.fsum(-mass * math.log2(mass / known[key[:given]]) for key, mass in law.items() if mass > 0)


@in_blocks(8, 8)
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
