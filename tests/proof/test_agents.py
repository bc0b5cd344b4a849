"""Certificates of agents that do not see their state, and of secrets with a value at every time: true, tight, held by both."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.game.test_records import random_pairs
from tests.proof.lies import Truth, dressed, lie
from tests.proof.plain import saved, second
from tests.proof.reading import Setting
from tests.seeds import blocks
from veil.common.errors import CertificateError, TooLargeError
from veil.game.solve import solve_game
from veil.policy.recall import recall
from veil.proof.certificate import Certificate
from veil.proof.checking import check as prove
from veil.proof.compiled import record_of
from veil.proof.described import described
from veil.proof.policy_values import policy_values

SECRETS = ("last", "first", "now", "groups", "ahead", "path")


def random_case(seed: int) -> tuple[veil.Problem, veil.Policy]:
    """Three states, two actions, up to three steps: every kind of agent, secret, observer and memory."""
    rng, states, actions = np.random.default_rng(seed), 3, 2
    horizon, by_action = int(rng.integers(1, 4)), seed % 4 == 1
    emissions = rng.dirichlet(np.full(3, 0.5), size=(actions, states) if by_action else states)
    observer = veil.Observer(emissions, sees_actions=seed % 3 == 0, sees_initial=bool(seed % 2))
    own = veil.Observer(rng.dirichlet(np.full(2, 0.6), size=states), sees_initial=bool(seed % 5))
    sees = ("observations", own, "state", "state+observations")[seed % 4 if seed % 8 < 4 else seed % 2]
    secret = {
        "last": veil.LastState({0}),
        "first": veil.InitialState(),
        "now": veil.StateNow({0}),
        "groups": veil.StateNow(groups={"a": [0], "b": [1]}, weights=list(rng.random(horizon + 1))),
        "ahead": veil.StateNow({1}, ahead=1 + seed % 2),
        "path": veil.Trajectory(),
    }[SECRETS[seed % 6]]
    moves, rewards = rng.dirichlet(np.full(states, 0.5), size=(states, actions)), rng.random((states, actions))
    model = veil.Model(moves, rewards, rng.dirichlet(np.ones(states)))
    problem = veil.Problem(model, observer, secret, horizon, agent_sees=sees)
    memory = (None, veil.ObservationMemory(2), veil.Controller(2), None, veil.ObservationMemory(1, clock=False))[
        seed % 5
    ]
    if memory is None or (sees == "state" and isinstance(memory, veil.ObservationMemory)):
        times = () if seed % 2 else (horizon,)
        table = rng.dirichlet(np.ones(actions), size=(*times, problem.num_cells))
        return problem, (veil.TimedPolicy if times else veil.MarkovPolicy)(table)
    rows = recall(problem, memory)
    times = (horizon,) if getattr(memory, "clock", True) else ()
    return problem, veil.MemoryPolicy(memory, rng.dirichlet(np.ones(rows.num_actions), size=(*times, rows.num_cells)))


def check(seed: int, folder: Path) -> None:
    problem, policy = random_case(seed)
    goal = "transparent" if seed % 7 == 3 else "opaque"
    claim = veil.certify(problem, policy, 20, gap=1e-2, goal=goal, progress=False)  # type: ignore[arg-type]
    veil.verify(claim, problem, policy)
    if goal == "opaque" and SECRETS[seed % 6] != "ahead":
        assert claim.best_known is not None
        assert claim.best_known <= claim.upper <= claim.best_known + 1e-2
    answer = second.main([str(saved(folder, problem, policy, claim))])
    assert answer[1] == 0, (seed, answer)
    bits, (own, *_) = veil.opacity(problem, policy, method="exact").bits, claim.channels
    assert own.lower - 1e-9 <= bits <= own.upper + 1e-9
    assert own.lower == pytest.approx(bits, abs=1e-9) or own.window != (-1, problem.horizon + 1)
    assert bits <= claim.upper + 1e-9
    assert abs(veil.expected_return(problem, policy) - claim.expected_return) <= claim.return_error + 1e-9


@pytest.mark.parametrize("block", blocks(30, 1000, 10))
def test_both_verifiers_hold_true_and_tight_certificates(block: range, tmp_path: Path):
    for seed in block:
        check(seed, tmp_path / "result")


@pytest.mark.parametrize("block", blocks(6, 60, 3))
def test_no_lie_about_them_is_accepted(block: range, tmp_path: Path):
    for seed in block:
        problem, policy = random_case(seed)
        claim, rng = veil.certify(problem, policy, 0.1, progress=False), random.Random(seed)
        truth = Truth(problem, policy, claim.hidden)
        for _ in range(10):
            told = lie(rng, claim, truth)
            if type(told) is not Certificate:
                continue
            try:
                veil.verify(told, problem, policy)
                assert truth.allows(told), (seed, told)
            except (CertificateError, TooLargeError):
                pass
            try:
                saved(tmp_path / "it", problem, policy, told)
            except Exception:  # what no file can hold
                continue
            assert second.main([str(tmp_path / "it")])[1] != 0 or truth.allows(told), (seed, told)


def test_times_that_do_not_count_have_no_weight(tmp_path: Path):
    """A weight of zero is a weight: certificates of such problems hold and are tight."""
    rng = np.random.default_rng(2)
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 1)), np.zeros((3, 1)), 0)
    observer = veil.Observer(rng.dirichlet(np.full(3, 0.5), size=3))
    problem = veil.Problem(model, observer, veil.StateNow({0}, weights=[0.0, 0.5, 0.0, 0.5]), 3)
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, gap=10, progress=False)
    veil.verify(claim, problem, policy)
    assert second.main([str(saved(tmp_path / "it", problem, policy, claim))])[1] == 0
    assert claim.lower == pytest.approx(veil.opacity(problem, policy, method="exact").bits, abs=1e-9)


def test_a_path_before_an_observer_that_depends_on_time(tmp_path: Path):
    """Games are about states that carry the time: their rules name the situations of the problem itself."""
    rng = np.random.default_rng(4)
    model = veil.Model(rng.dirichlet(np.ones(2), size=(2, 2)), np.zeros((2, 2)), [0.5, 0.5])
    early, late = ([[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.3, 0.7]])
    problem = veil.Problem(model, veil.Observer(early, emissions_at={2: late}), veil.Trajectory(), 3)
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, gap=0.1, progress=False)
    veil.verify(claim, problem, policy)
    assert second.main([str(saved(tmp_path / "it", problem, policy, claim))])[1] == 0
    bits = veil.opacity(problem, policy, method="exact").bits
    assert claim.lower == pytest.approx(bits, abs=1e-9)
    assert bits <= claim.upper < 3.5


def test_a_history_of_what_several_observers_see(tmp_path: Path):
    """What its situations remember is told in the certificate, and checked against the problem."""
    problem, names = random_pairs(6), ("own", "p0")
    policy = solve_game(problem, hide=names, gap=1e-2).policy()
    claim = veil.certify(problem, policy, gap=10, hide=", ".join(names), progress=False)
    assert claim.register is not None
    veil.verify(claim, problem, policy)
    assert second.main([str(saved(tmp_path / "it", problem, policy, claim))])[1] == 0
    for one in claim.channels:
        bits = veil.opacity(problem, policy, pair=one.name, method="exact").bits
        assert one.lower == pytest.approx(bits, abs=1e-9)
    with pytest.raises(CertificateError, match="register"):
        veil.verify(replace(claim, register=replace(claim.register, time=9)), problem, policy)
    agent, record = described(problem, policy)[0], record_of(problem)
    for name in ("start", "step", "label"):  # to those who do not have the scenario
        array = getattr(claim.register, name)
        for made in (array - 2, array + 2**40, array[:0], array * 1.0):
            with pytest.raises(CertificateError, match=r"^policy: (what its situations remember|the values)"):
                prove(claim, record, agent, replace(claim.register, **{name: made}))


def windowed(problem: veil.Problem, policy: veil.Policy, radius: int) -> Certificate:
    claim = veil.certify(problem, policy, 1, progress=False)
    found = policy_values(
        Setting(record_of(problem)), described(problem, policy), (radius, problem.horizon + 1), 0.0, None
    )
    one = replace(
        claim.channels[0], window=(radius, problem.horizon + 1), lower=max(0.0, found.lower - 1e-12), upper=1.001
    )
    return dressed(replace(claim, channels=(one,), best_known=None))


@pytest.mark.parametrize("ahead", [0, 1])
def test_windows_bound_every_time_from_below(ahead: int, tmp_path: Path):
    """Longer windows prove more, up to what is hidden."""
    rng = np.random.default_rng(ahead)
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 1)), np.zeros((3, 1)), 0)
    observer = veil.Observer(rng.dirichlet(np.full(3, 0.5), size=3))
    problem = veil.Problem(model, observer, veil.StateNow({0}, ahead=ahead), 5)
    policy = veil.MarkovPolicy.uniform(problem)
    bits = veil.opacity(problem, policy, method="exact").bits
    proven = [windowed(problem, policy, radius) for radius in (0, 1, 3)]
    for claim in proven:
        veil.verify(claim, problem, policy)
        assert second.main([str(saved(tmp_path / "it", problem, policy, claim))])[1] == 0
    lowers = [claim.lower for claim in proven]
    assert lowers == sorted(lowers)
    assert bits - 0.05 < lowers[-1] <= bits + 1e-9


def test_a_register_that_looks_at_the_state_is_refused(tmp_path: Path):
    """An agent that does not see its state cannot remember it."""
    problem, policy = random_case(0)
    claim = veil.certify(problem, policy, 0.1, progress=False)
    held = claim.register
    assert held is not None
    told = replace(claim, register=replace(held, start=np.repeat(held.start, problem.num_states, axis=0)))
    answer = second.main([str(saved(tmp_path / "it", problem, policy, told))])
    assert answer[1] == 5
    with pytest.raises(CertificateError):
        veil.verify(told, problem, policy)
