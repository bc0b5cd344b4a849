"""Pairs (secret, observer) beside a problem's own: values, files, fingerprints, refusals."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import veil
from tests.problem.test_masks import distributions
from tests.problem.test_together import random_case
from tests.seeds import in_blocks
from veil.formats.scenario.load import read_scenario
from veil.formats.scenario.toml import to_toml
from veil.problem.fingerprint import fingerprint


def with_pairs(seed: int) -> veil.Problem:
    """A problem with a second observer, a second secret, and both."""
    problem, two = random_case(seed, sees_actions=seed % 2 == 1)
    first = veil.InitialState()
    pairs = [veil.Pair("other", two, min=0.1), veil.Pair("start", secret=first), veil.Pair("both", two, first, max=1.5)]
    return problem.replace(pairs=pairs)


@in_blocks(4, 4, 4)
def test_each_pair_is_worth_what_it_is_alone(seed: int) -> None:
    """The value of a pair is that of a problem with its secret and its observer, and the own pair is not touched by others."""
    problem = with_pairs(seed)
    policy = veil.MarkovPolicy(distributions(np.random.default_rng([seed, 7]), 3, 2))
    own = problem.replace(pairs=())
    found = veil.pair_values(problem, policy, "exact")
    for pair, value in zip(problem.pairs, found, strict=True):
        alone = own.replace(observer=pair.observer or own.observer, secret=pair.secret or own.secret)
        assert value.bits == veil.opacity(alone, policy, "exact").bits
        assert problem.only(pair.name).pairs == ()
        low, high = pair.min or 0.0, np.inf if pair.max is None else pair.max
        assert value.met == (low <= value.bits <= high)
    assert veil.opacity(problem, policy, "exact") == veil.opacity(own, policy, "exact")
    assert problem.only("own") == own


@in_blocks(3, 3, 3)
def test_files_and_fingerprints(seed: int) -> None:
    """A scenario file reads back to the same numbers; every part of a pair is part of the fingerprint."""
    problem = with_pairs(seed)
    again = read_scenario(to_toml(problem)).problem
    assert fingerprint(again) == fingerprint(problem)
    assert [one.name for one in again.pairs] == ["other", "start", "both"]
    prints = {fingerprint(problem), fingerprint(problem.replace(pairs=()))}
    for change in ({"min": 0.2}, {"max": 0.9}, {"name": "x"}, {"secret": veil.LastState([1])}, {"observer": None}):
        given: dict[str, Any] = {
            "name": "other",
            "observer": problem.pairs[0].observer,
            "min": 0.1,
            "secret": veil.LastState([0]),
        }
        parts: dict[str, Any] = given | change
        prints.add(fingerprint(problem.replace(pairs=[veil.Pair(**parts)])))
    assert len(prints) == 7


def test_what_is_refused() -> None:
    """Every defect is named at once, with the pair and the remedy."""
    with pytest.raises(veil.InputError, match=r"(?s)2 defects.*problem's own pair.*at least one of them"):
        veil.Pair("own")
    with pytest.raises(veil.InputError, match="parentheses"):
        veil.Pair("a(b)", veil.Observer([[1.0]]))
    with pytest.raises(veil.InputError, match="0 or more"):
        veil.Pair("a", veil.Observer([[1.0]]), min=-1)
    with pytest.raises(veil.InputError, match="min ≤ max"):
        veil.Pair("a", veil.Observer([[1.0]]), min=1, max=0.5)
    problem, two = random_case(0)
    pair = veil.Pair("a", two)
    with pytest.raises(veil.InputError, match=r"(?s)pair 1 is a str.*two pairs are called 'a'"):
        problem.replace(pairs=[pair, "x", pair])  # type: ignore[list-item]
    with pytest.raises(veil.InputError, match=r"pair 'a'.*emissions has shape"):
        problem.replace(pairs=[veil.Pair("a", veil.Observer(np.eye(2)))])
    whole = problem.replace(pairs=[pair])
    with pytest.raises(veil.InputError, match="there is no pair 'b'"):
        whole.only("b")


def test_a_policy_that_acts_on_what_one_observer_sees() -> None:
    """Measured against another observer, whose observations it does not read: over all runs, one by one."""
    problem, two = random_case(1)
    whole = problem.replace(
        pairs=[veil.Pair("a", two)], agent_sees="state+observations", horizon=3, secret=veil.LastState({0})
    )
    uniform = veil.MemoryPolicy.uniform(whole, veil.ObservationMemory(1))
    rng = np.random.default_rng(3)
    policy = veil.MemoryPolicy(uniform.memory, rng.dirichlet(np.ones(whole.num_actions), uniform.table.shape[:2]))
    rows = {name: number for number, name in enumerate(veil.MemoryPolicy.row_names(whole, policy.memory))}
    model, law = whole.model, dict[tuple[tuple[int, ...], bool], float]()

    def go(time: int, state: int, chance: float, seen: tuple[int, ...]) -> None:
        for own, other in product(range(whole.observer.num_observations), range(two.num_observations)):
            here = chance * whole.observer.emissions[state, own] * two.emissions[state, other]
            if here == 0:
                continue
            if time == whole.horizon:
                key = (*seen, other), state == 0
                law[key] = law.get(key, 0.0) + here
                continue
            row = policy.table[time, rows[f"{model.states[state]} (seen {whole.observer.observations[own]})"]]
            for action, there in product(range(whole.num_actions), range(whole.num_states)):
                after = here * row[action] * model.transitions[state, action, there]
                if after > 0:
                    go(time + 1, there, after, (*seen, other))

    for state in range(whole.num_states):
        go(0, state, float(model.initial[state]), ())
    totals = dict[tuple[int, ...], float]()
    for (seen, _), chance in law.items():
        totals[seen] = totals.get(seen, 0.0) + chance
    bits = -sum(chance * np.log2(chance / totals[seen]) for (seen, _), chance in law.items())
    assert veil.pair_values(whole, policy)[0].bits == pytest.approx(bits, abs=1e-12)
    proven = veil.certify(whole, policy, 5, hide="a", progress=False)
    assert proven.pairs[0].lower <= bits <= proven.upper + 1e-9
    assert proven.pairs[0].lower == pytest.approx(bits, abs=1e-6)
    veil.verify(proven, whole, policy)
    found = veil.solve(whole, memory=veil.ObservationMemory(1), iterations=3, time_limit=20, certificate=False)
    assert found.pairs[0].bits == pytest.approx(veil.opacity(whole, found.policy, pair="a").bits, abs=1e-9)


def test_a_scenario_with_pairs() -> None:
    """The tables of a file, and where a defect in them is."""
    text = """
horizon = 2
[graph]
transitions = [["a", "go", "b"], ["a", "stay", "a"], ["b", "go", "a"], ["b", "stay", "b"]]
initial = ["a", "b"]
[observer]
emissions = { a = "x", b = "y" }
[secret]
kind = "last_state"
states = ["a"]
[[pairs]]
name = "blind"
min = 0.5
observer.emissions = { a = "x", b = "x" }
[[pairs]]
name = "start"
secret = { kind = "initial_state" }
[solve]
hide = "own, blind"
"""
    read = read_scenario(text)
    policy = veil.MarkovPolicy.uniform(read.problem)
    assert [one.bits for one in veil.pair_values(read.problem, policy)] == [1.0, 0.0]
    assert read.settings["hide"] == "own, blind"
    with pytest.raises(veil.InputError, match=r"pairs.*line 13.*0 or more|line 13.*min.*0 or more"):
        read_scenario(text.replace("min = 0.5", "min = -0.5"))
    with pytest.raises(veil.InputError, match="unknown state 'c'"):
        read_scenario(text.replace('b = "x" }', 'b = "x", c = "x" }'))
    with pytest.raises(veil.InputError, match=r"initial_stat"):
        read_scenario(text.replace("initial_state", "initial_stat"))
