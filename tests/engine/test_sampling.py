"""Drawing sequences and runs: the law of the draws, their seeds, and what must never be drawn."""

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chi2

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases
from tests.engine.passes import joint_of
from tests.engine.runs import MEMORIES, random_policy, remembering_cases
from tests.marks import chequered
from tests.random_problems import KINDS
from veil.engine.chain import Chain, make_chain
from veil.engine.sampling import Runs, draw_events, draw_runs


def counted(events: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """How often each possible sequence occurs; every one drawn must be among them."""
    place = {tuple(row): number for number, row in enumerate(possible.tolist())}
    assert len(place) == len(possible)
    return np.bincount([place[tuple(row)] for row in events.tolist()], minlength=len(possible)).astype(float)


def chi_square(counts: np.ndarray, law: np.ndarray) -> tuple[float, float]:
    """The p-value of Pearson's test, sequences expected fewer than ten times thrown together, and the cells there are."""
    expected = law / law.sum() * counts.sum()
    rare = expected < 10
    first = np.append(counts[~rare], counts[rare].sum())
    second = np.append(expected[~rare], expected[rare].sum())
    first, second = first[second > 0], second[second > 0]
    if len(second) == 1:
        return 1.0, 1
    return float(chi2.sf(np.sum((first - second) ** 2 / second), len(second) - 1)), len(second)


def p_values(chains: list[Chain], draws: int = 10_000) -> list[float]:
    found = []
    for number, chain in enumerate(chains):
        possible, joint = joint_of(chain)
        events = draw_events(chain, draws, np.random.default_rng(number))
        assert events.shape == (draws, chain.hidden.horizon + 1)
        value, cells = chi_square(counted(events, possible), joint.sum(axis=1))
        if cells > 1:
            found.append(value)
    return found


def assert_plausible(values: list[float]) -> None:
    """P-values of a true law are uniform: none tiny, and their mean near one half."""
    assert len(values) >= 8
    assert min(values) > 1e-4
    assert abs(np.mean(values) - 0.5) < 4 * np.sqrt(1 / 12 / len(values))


@pytest.mark.parametrize(("kind", "timed"), chequered(KINDS, [False, True]))
def test_sequences_are_drawn_by_their_law(kind: str, timed: bool):
    assert_plausible(p_values([chain_of(case) for case in small_cases(16, kind, work=500, timed=timed)]))


def test_runs_are_independent_of_each_other():
    """Neighbours agree in their last event as often as chance has it."""
    problem = veil.gallery.load("paper-false-alarms")
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    last = draw_events(chain, 100_000, np.random.default_rng(0))[:, -1]
    share = np.bincount(last) / len(last)
    chance = float(share @ share)
    agree = np.mean(last[1:] == last[:-1])
    assert abs(agree - chance) < 4 * np.sqrt(chance / len(last))


def test_no_decision_draws_only_the_first_event():
    model = veil.Model(np.eye(2)[:, None], np.zeros((2, 1)), [0.25, 0.75])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({0}), 0)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    events = draw_events(chain, 10_000, np.random.default_rng(0))
    assert events.shape == (10_000, 1)
    assert events.mean() == pytest.approx(0.75, abs=0.02)
    unseen = problem.replace(observer=veil.Observer(np.eye(2), sees_initial=False))
    assert not draw_events(make_chain(unseen, veil.MarkovPolicy.uniform(unseen)), 10, np.random.default_rng(0)).any()


# Whole runs

Path = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def law_of_runs(chain: Chain, most: int = 30_000) -> dict[Path, float]:
    """The probability of every run (states, actions, events), factor by factor; nothing where there are too many."""
    hidden = chain.hidden
    moves = sp.csr_array(hidden.kernel.stacked).toarray().reshape(*hidden.paid[0].reward.shape, hidden.num_states)
    emitter_of = [[c.actions[a] for c in hidden.emitters].index(True) for a in range(hidden.kernel.num_actions)]
    law = {((int(x),), (), (int(e),)): float(hidden.root[x, e]) for x, e in np.argwhere(hidden.root > 0)}
    for time in range(hidden.horizon):
        ahead: dict[Path, float] = {}
        for (states, actions, events), chance in law.items():
            row = chain.table[0 if chain.stationary else time, hidden.cell[states[-1]]]
            for a in np.flatnonzero(row).tolist():
                emission = hidden.emitters[emitter_of[a]].emission
                for x in np.flatnonzero(moves[states[-1], a]).tolist():
                    for e in np.flatnonzero(emission[x]).tolist():
                        ahead[(*states, x), (*actions, a), (*events, e)] = float(
                            chance * row[a] * moves[states[-1], a, x] * emission[x, e]
                        )
        if len(ahead) > most:
            return {}
        law = ahead
    return law


def paths(runs: Runs) -> Iterator[Path]:
    for states, actions, events in zip(runs.states, runs.actions, runs.events, strict=True):
        yield tuple(states.tolist()), tuple(actions.tolist()), tuple(events.tolist())


def p_values_of_runs(chains: list[Chain], draws: int = 10_000) -> list[float]:
    found = []
    for number, chain in enumerate(chains):
        law = law_of_runs(chain)
        if not law:
            continue
        assert sum(law.values()) == pytest.approx(1, abs=1e-9)
        runs = draw_runs(chain, draws, np.random.default_rng(number))
        counts = dict.fromkeys(law, 0)
        for path in paths(runs):
            counts[path] += 1  # a run that cannot occur is not among them
        value, cells = chi_square(np.array(list(counts.values()), dtype=float), np.array(list(law.values())))
        if cells > 1:
            found.append(value)
    return found


@pytest.mark.parametrize(("kind", "timed"), chequered(KINDS, [False, True]))
def test_runs_are_drawn_by_their_law(kind: str, timed: bool):
    cases = small_cases(18, kind, work=150, timed=timed)
    assert_plausible(p_values_of_runs([chain_of(case) for case in cases]))


@pytest.mark.slow
def test_runs_with_memory_are_drawn_by_their_law():
    """Also the secret with what is seen, against the table that the tree gives."""
    whole, secret = [], []
    for name, memory in MEMORIES.items():
        for seed, case in enumerate(remembering_cases(2, "last", most_runs=1_000)):
            chain = make_chain(case.problem, random_policy(case.problem, memory, seed))
            whole += p_values_of_runs([chain])
            possible, joint = joint_of(chain)
            runs = draw_runs(chain, 10_000, np.random.default_rng((seed, len(name))))
            values = np.argmax(chain.hidden.label[runs.states[:, chain.hidden.split_time]], axis=1)
            pairs = np.concatenate([possible.repeat(2, axis=0), np.tile([[0], [1]], (len(possible), 1))], axis=1)
            counts = counted(np.concatenate([runs.events, values[:, None]], axis=1), pairs)
            value, cells = chi_square(counts, joint.ravel())
            secret += [value] if cells > 1 else []
    assert_plausible(whole)
    assert_plausible(secret)


def test_runs_depend_on_the_seed_alone():
    for number, case in enumerate(small_cases(10)):
        chain = chain_of(case)
        first, second = (draw_runs(c, 100, np.random.default_rng(number)) for c in (chain, on_sparse_kernel(chain)))
        assert list(paths(first)) == list(paths(second))
        assert len(first) == 100
    paper = veil.gallery.load("paper-last-state")
    chain = make_chain(paper, veil.MarkovPolicy.uniform(paper))
    assert (draw_runs(chain, 50, np.random.default_rng(1)).states
            != draw_runs(chain, 50, np.random.default_rng(2)).states).any()  # fmt: skip
