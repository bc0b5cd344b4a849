"""Observers of every kind together, behind noise, masked, lifted and proven: each against all runs, one by one."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.problem.all_runs import ACTIONS, KINDS, MASKS, STATES, Garbled, Unmasked, Watcher, bits, distributions, model
from tests.seeds import looped
from veil.formats.scenario.load import read_scenario
from veil.formats.scenario.toml import to_toml
from veil.problem.fingerprint import fingerprint
from veil.proof.words import claim_words, seal_of

HORIZON = 2


def case(*kinds: str, size: int = 2, sensors: bool = False) -> tuple[veil.Problem, list[Watcher], np.ndarray]:
    """A problem whose observer is the first of some kinds, all of them, and the table of a policy."""
    rng = np.random.default_rng([list(KINDS).index(kind) for kind in kinds])
    watchers = [Watcher.make(kind, rng, size) for kind in kinds]
    problem = veil.Problem(model(rng), watchers[0].observer(sensors=sensors), veil.LastState([0]), HORIZON)
    return problem, watchers, distributions(rng, STATES, ACTIONS)


def hidden(problem: veil.Problem, table: np.ndarray) -> float:
    return veil.opacity(problem, veil.MarkovPolicy(table), "exact").bits


@looped("kind", KINDS)
def test_each_kind_alone(kind: str) -> None:
    problem, watchers, table = case(kind, size=4, sensors=True)
    expected = bits(problem, table, watchers)
    assert hidden(problem, table) == pytest.approx(expected, abs=1e-12)
    written = problem.replace(observer=problem.observer.written_out())
    assert hidden(written, table) == pytest.approx(expected, abs=1e-12)
    unrolled = problem.unrolled()
    assert not unrolled.observer.varies
    behind = [problem.model.states.find(name.split("@")[0]) for name in unrolled.model.states]
    assert hidden(unrolled, table[behind]) == pytest.approx(expected, abs=1e-12)


@looped("kinds", [*itertools.combinations_with_replacement(KINDS, 2), ("steps", "at"), ("untimed end", "times")])
def test_two_of_every_kind_together(kinds: tuple[str, str]) -> None:
    problem, watchers, table = case(*kinds)
    both = veil.Together(*(one.observer(f"{number}", sensors=False) for number, one in enumerate(watchers)))
    assert both.untimed == all(one.untimed for one in watchers)
    assert hidden(problem.replace(observer=both), table) == pytest.approx(bits(problem, table, watchers), abs=1e-12)


def test_three_together_and_the_names_of_what_is_not_received() -> None:
    rng = np.random.default_rng(7)
    watchers = [Watcher.make(kind, rng, 2) for kind in ("end", "no start", "steps and start")]
    problem = veil.Problem(model(rng), veil.Observer(np.eye(STATES)), veil.LastState([0]), HORIZON)
    table = distributions(rng, STATES, ACTIONS)
    three = veil.Together(*(one.observer(f"{number}", sensors=False) for number, one in enumerate(watchers)))
    assert hidden(problem.replace(observer=three), table) == pytest.approx(bits(problem, table, watchers), abs=1e-12)
    late = veil.Observer(np.eye(STATES), ["x", "y", "z"], sees_initial=False)
    both = veil.Together(veil.Observer(np.eye(STATES)), late)
    assert "o0 & unobserved" in both.observations.all()
    assert both.silent is None
    assert not both.varies
    assert both.sees_first


@looped("kinds", [("end", "end"), ("times", "times"), ("untimed end", "untimed end")])
def test_common_times_stay(kinds: tuple[str, str]) -> None:
    _, watchers, _ = case(*kinds)
    one, two = (one.observer(f"{number}", sensors=False) for number, one in enumerate(watchers))
    assert veil.Together(one, two).times == one.times


@looped("kind", KINDS)
def test_a_noisy_channel(kind: str) -> None:
    """Behind noise, an observer holds what the channel makes of each reading, silent ones included."""
    problem, (watcher,), table = case(kind, size=3)
    certain = np.array([[1.0, 0, 0], [0.3, 0.5, 0.2], [0, 0.1, 0.9]])
    for channel, silent in ((certain, None), (distributions(np.random.default_rng(0), 3, 3), 0)):
        garbled = problem.observer.garbled(channel, problem.observer.observations.all(), silent=silent)
        behind = Garbled(**vars(watcher), channel=channel)
        expected = bits(problem, table, [behind])
        assert hidden(problem.replace(observer=garbled), table) == pytest.approx(expected, abs=1e-12)


@looped("kind", KINDS)
def test_a_sensor_switched_off(kind: str) -> None:
    problem, (watcher,), table = case(kind, size=4, sensors=True)
    muted = problem.replace(observer=problem.observer.without_sensor("second"))
    behind = Garbled(**vars(watcher), channel=np.eye(4)[[0, 1, 0, 1]])
    assert hidden(muted, table) == pytest.approx(bits(problem, table, [behind]), abs=1e-12)


@pytest.mark.parametrize("visible", [True, False])
@looped("kind", KINDS)
def test_masks(kind: str, visible: bool) -> None:
    problem, watchers, _ = case(kind, size=4, sensors=True)
    masks = veil.Masks(visible=visible)
    if watchers[0].sees_actions and not visible:
        with pytest.raises(veil.InputError, match="visible=True"):
            masks.apply(problem)
        return
    masked = masks.apply(problem)
    table = distributions(np.random.default_rng(1), STATES * len(MASKS), ACTIONS * len(MASKS))
    expected = bits(problem, table, watchers, masked=True, visible=visible)
    assert hidden(masked, table) == pytest.approx(expected, abs=1e-12)
    assert set(masked.observer.sensors) == set(problem.observer.sensors)


@looped("kind", KINDS)
def test_pairs_are_lifted(kind: str) -> None:
    """Masks act on the own observer and on pairs that share it; other observers see what they saw; time changes nothing."""
    problem, _, table = case(kind, size=4, sensors=True)
    plain = Watcher.make(kind, np.random.default_rng(3), 2)
    if plain.sees_actions:
        return  # it sees the masks among the actions
    pairs = [
        veil.Pair("foe", plain.observer("x", sensors=False), min=0.1),
        veil.Pair("same", secret=veil.StateAt(1, [0])),
        veil.Pair("wrong", belief=veil.Belief(doubt=0.1)),
    ]
    assumes = veil.Pair("assumes", belief=veil.Belief(veil.MarkovPolicy(table[:, ::-1]), doubt=0.1))
    whole = problem.replace(pairs=pairs)
    masked = veil.Masks().apply(whole)
    wide = distributions(np.random.default_rng(1), STATES * len(MASKS), ACTIONS * len(MASKS))
    policy = veil.MarkovPolicy(wide)
    foe = bits(problem, wide, [Unmasked(**vars(plain))], masked=True)
    assert veil.opacity(masked, policy, "exact", pair="foe").bits == pytest.approx(foe, abs=1e-12)
    alone = veil.Masks().apply(problem.replace(secret=veil.StateAt(1, [0])))
    assert veil.opacity(masked, policy, "exact", pair="same").bits == pytest.approx(hidden(alone, wide), abs=1e-12)
    assert masked.pairs[0].min == 0.1
    with pytest.raises(veil.InputError, match="assumes a policy for the states without time or masks"):
        veil.Masks().apply(problem.replace(pairs=[assumes]))
    whole = problem.replace(pairs=[*pairs, assumes])
    unrolled = whole.unrolled()
    behind = [problem.model.states.find(name.split("@")[0]) for name in unrolled.model.states]
    for name in ("own", "foe", "same", "wrong", "assumes"):
        same = veil.opacity(unrolled, veil.MarkovPolicy(table[behind]), "exact", pair=name).bits
        assert same == pytest.approx(veil.opacity(whole, veil.MarkovPolicy(table), "exact", pair=name).bits, abs=1e-12)


@looped("kind", ["end", "times", "start", "steps and start"])
def test_certificates(kind: str) -> None:
    """The proof is about states that carry the time, and so about the problem itself, for every kind of policy."""
    problem, watchers, table = case(kind)
    best = veil.solve(problem, method="game", certificate=False)
    expected = bits(problem, table, watchers)
    tried = [(veil.MarkovPolicy(table), expected), (best.policy, best.opacity.bits)]
    seeing = problem.replace(agent_sees="state+observations")
    for memory in (veil.StateMemory(1), veil.ObservationMemory(1)):
        uniform = veil.MemoryPolicy.uniform(seeing, memory)
        random = veil.MemoryPolicy(memory, distributions(np.random.default_rng(2), *uniform.probabilities.shape))
        tried.append((random, veil.opacity(seeing, random, "exact").bits))
    for policy, value in tried:
        proof = veil.certify(seeing, policy, time_limit=2)
        veil.verify(proof, seeing, policy)
        assert proof.lower == pytest.approx(value, abs=1e-9)
        assert value <= proof.upper <= best.opacity.bits + 2e-3


@looped("kind", ["untimed", "untimed end", "untimed steps"])
def test_certificates_against_observers_without_a_clock(kind: str) -> None:
    """The lower bound is that of the observer with a clock; the upper bound does not use what it knows."""
    problem, _, table = case(kind)
    policy = veil.MarkovPolicy(table)
    for secret in (veil.LastState([0]), veil.InitialState({"a": [0], "b": [1, 2]}), veil.Trajectory()):
        asked = problem.replace(secret=secret)
        proof = veil.certify(asked, policy, time_limit=2)
        found = veil.verify(proof, asked, policy)
        clock = veil.opacity(asked.with_clock(), policy, "exact").bits
        assert proof.lower == pytest.approx(clock, abs=1e-9)
        assert clock - 1e-12 <= veil.opacity(asked, policy, "exact").bits <= min(proof.upper, found.policy.upper)
        assert "without a clock" in proof.bound_class
    own, timed = (veil.certify(one, policy, time_limit=2) for one in (problem, problem.with_clock()))
    forged = replace(own, bounds=timed.bounds[:1], best_known=None)
    forged = replace(forged, claim=claim_words(forged), seal=seal_of(forged))
    if kind == "untimed":  # the others have a secret that all can guess alike
        with pytest.raises(veil.CertificateError, match="no clock, and the rule depends on more than the string"):
            veil.verify(forged, problem, policy)


def test_a_pair_without_a_clock() -> None:
    """It is told of in the certificate from below alone, also for a policy that acts on what another observer sees."""
    problem, watchers, table = case("plain", "untimed")
    whole = problem.replace(pairs=[veil.Pair("foe", watchers[1].observer("x", sensors=False), max=0.99)])
    best = veil.solve(problem, method="game", certificate=False).policy
    for policy in (veil.MarkovPolicy(table), best):
        proof = veil.certify(whole, policy, time_limit=2)
        veil.verify(proof, whole, policy)
        assert proof.pairs[0].lower <= veil.opacity(whole, policy, "exact", pair="foe").bits
        assert proof.pairs[0].upper == 1


def test_certificates_of_pairs() -> None:
    """Observers who look at different times, and a secret with a memory, in one certificate."""
    problem, watchers, table = case("end", "steps and start")
    foe = veil.Pair("foe", watchers[1].observer("x", sensors=False), min=1e-4)
    path = veil.Pair("path", secret=veil.Visited({"zero": [0]}))
    whole = problem.replace(pairs=[foe, path], constraints=[veil.Probability("F s1", min=1e-4)])
    policy = veil.MarkovPolicy(table)
    proof = veil.certify(whole, policy, time_limit=3, hide="own, path")
    found = veil.verify(proof, whole, policy)
    for name in ("foe", "path"):
        value = veil.opacity(whole, policy, "exact", pair=name).bits
        assert found.channels[[one.name for one in whole.channels].index(name)].lower == pytest.approx(value, abs=1e-9)


@looped("kind", ["end", "at", "start", "steps and start", "untimed end"])
def test_scenario_files(kind: str) -> None:
    """An observer is read as it was written; a time on steps other than 0 has no form there, and names the remedy."""
    problem, watchers, _ = case(kind)
    if kind == "steps and start":
        with pytest.raises(veil.InputError, match=r"no form in files: use problem.unrolled\(\)"):
            to_toml(problem)
        watchers[0].at.pop(2)
        problem = problem.replace(observer=watchers[0].observer(sensors=False))
    both = problem.replace(
        observer=veil.Together(
            problem.observer, Watcher.make("plain", np.random.default_rng(0), 2).observer("x", False)
        )
    )
    for one in (problem, problem.unrolled()) + ((both,) if not both.observer.on_actions else ()):
        assert fingerprint(read_scenario(to_toml(one)).problem) == fingerprint(one)
