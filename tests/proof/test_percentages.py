"""Bounds that a problem gives as a percentage: both verifiers recompute the number, and no other is accepted."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.proof.lies import dressed
from tests.proof.plain import code, saved, second
from tests.proof.reading import CheckedProblem
from tests.random_problems import distributions
from tests.seeds import blocks
from veil.common.errors import CertificateError
from veil.engine.feasibility import other_targets
from veil.engine.return_range import return_extremes
from veil.proof.attainable import attainable
from veil.proof.feasibility import after_horizon


def random_range(seed: int, **parts: Any) -> veil.Problem:
    """One or two models that the agent may or may not tell apart, with rewards of some size around some offset."""
    rng = np.random.default_rng([seed, 5])
    count, states = 1 + seed % 2, int(rng.integers(2, 5))
    offset, size = float(rng.choice([0, 0, 1, 1e6])), float(rng.choice([0, 1e-6, 1, 1e3]))
    discount = float(rng.choice([1.0, 0.9, 0.3]))
    endless = bool(rng.random() < 0.3)
    models = [
        veil.Model(
            distributions(rng, states, 2, states), offset + size * rng.uniform(-1, 1, (states, 2)), distributions(rng, states),
            min(discount, 0.95) if endless else discount,
            terminal_rewards=None if endless else size * rng.uniform(-1, 1, states),
        )
        for _ in range(count)
    ]  # fmt: skip
    secret = veil.WhichModel(agent_knows=bool(seed % 4 == 3)) if count > 1 else veil.LastState([0])
    observer = veil.Observer(distributions(rng, states, 2))
    over = {"return_over": "infinite"} if endless else {}
    return veil.Problem(models, observer, secret, int(rng.integers(0, 4)), f"{seed * 7 % 101}%", **over, **parts)


def policy_of(problem: veil.Problem) -> veil.MarkovPolicy:
    return veil.MarkovPolicy.uniform(problem)


def put(claim: veil.Certificate, **changes: Any) -> veil.Certificate:
    """The certificate with a return that is claimed otherwise."""
    return replace(claim, quantities=(replace(claim.quantities[0], **changes), *claim.quantities[1:]))


@pytest.mark.parametrize("block", blocks(20, 400))
def test_own_certificates_hold_and_other_thresholds_do_not(block: range) -> None:
    """Of agents that know the model or do not, over finite and infinite horizons, where all earn the same or not."""
    for seed in block:
        problem = random_range(seed)
        honest = veil.certify(problem, policy_of(problem), 0.05, progress=False)
        veil.verify(honest, problem, policy_of(problem))
        ends = return_extremes(problem)
        assert honest.threshold is not None
        off = 1e-6 * (ends.largest - ends.smallest) + 1e-9 * abs(honest.threshold) + 1e-12
        for other in (honest.threshold + off, honest.threshold - off, honest.threshold + 1e3 * off):
            lie = put(honest, bound=other, met=honest.expected_return > other)
            with pytest.raises(CertificateError):
                veil.verify(dressed(lie), problem, policy_of(problem))


@pytest.mark.parametrize("block", blocks(40, 400))
def test_the_range_of_every_quantity(block: range) -> None:
    """The verifier finds the ends that the engine finds by other means, within both errors."""
    for seed in block:
        problem = random_range(seed)
        if problem.return_over == "horizon":
            knows = problem.secret_table.agent_knows
            formula = veil.Probability("F here", "10%", labels={"here": [0]}, agent_knows=knows)
            problem = problem.replace(constraints=[veil.Return(max="40%"), formula])
        checked = CheckedProblem(problem)
        wanted = [return_extremes(problem), *(one.range for one in other_targets(problem))]
        for paid, one in zip(checked.paid, wanted, strict=True):
            found = attainable(checked, paid, after_horizon(problem))
            assert found.error <= 1e-9 * (1 + abs(one.largest)), seed
            assert found.smallest == pytest.approx(one.smallest, abs=1e-9 * (1 + abs(one.smallest))), seed
            assert found.largest == pytest.approx(one.largest, abs=1e-9 * (1 + abs(one.largest))), seed


def test_a_long_horizon_with_a_discount_close_to_one() -> None:
    """Rewards of -10 and -5 each step, for ever: half of the way is -15,000."""
    moves = np.repeat(np.eye(2)[:, None], 2, axis=1)
    model = veil.Model(moves, [[-10.0, -5.0]] * 2, [0.5, 0.5], 0.9995)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), 2, "50%", "infinite")
    policy = veil.TimedPolicy(np.full((2, 2, 2), 0.5))
    honest = veil.certify(problem, policy, 1, progress=False)
    assert honest.threshold == pytest.approx(-15_000, rel=1e-9)
    veil.verify(honest, problem, policy)
    lie = dressed(put(honest, bound=-12_970.0, met=False))
    with pytest.raises(CertificateError, match="threshold"):
        veil.verify(lie, problem, policy)


@pytest.mark.parametrize(
    ("over", "reward", "horizon"),
    [
        ("horizon", 1.0, 3),
        pytest.param("horizon", 0.1, 1010, marks=pytest.mark.slow),
        ("horizon", 0.1, 60),
        ("infinite", 0.1, 3),
        ("infinite", -7.3e5, 3),
        ("infinite", 0.0, 3),
    ],
)
def test_all_policies_earn_the_same(over: str, reward: float, horizon: int) -> None:
    rng = np.random.default_rng(0)
    model = veil.Model(distributions(rng, 2, 2, 2), np.full((2, 2), reward), [0.5, 0.5], 0.9)
    observer = veil.Observer(np.ones((2, 1)))
    problem = veil.Problem(model, observer, veil.LastState({1}), horizon, "70%", over)  # type: ignore[arg-type]
    policy = policy_of(problem)
    veil.verify(veil.certify(problem, policy, 60, gap=10, progress=False), problem, policy)


def changed(folder: Path, number: int = 0, **changes: object) -> int:
    """The code of the second verifier for a certificate with another quantity in its file."""
    path = folder / "certificate.json"
    kept = path.read_text("utf-8")
    head = json.loads(kept)
    head["quantities"][number] |= changes
    path.write_text(json.dumps(head), "utf-8")
    found = second.main([str(folder)])[1]
    path.write_text(kept, "utf-8")
    return found


def test_the_second_verifier_resolves_percentages(tmp_path: Path) -> None:
    """The threshold is the number that the percentage is: no other, and not none; also of a further constraint."""
    rng = np.random.default_rng(3)
    model = veil.Model(distributions(rng, 3, 2, 3), np.eye(3)[:, :2], [1, 0, 0])
    problem = veil.Problem(
        model, veil.Observer(np.eye(2)[[0, 0, 1]]), veil.LastState({1}), 3, "50%", constraints=[veil.Return(max="90%")]
    )
    policy = policy_of(problem)
    honest = veil.certify(problem, policy, 1, progress=False)
    folder = saved(tmp_path / "it", problem, policy, honest)
    assert code(folder) == 0
    assert honest.threshold is not None
    for threshold in (honest.threshold + 1e-6, honest.threshold - 1e-6, 0.0, None, "50%", True, float("nan"), 10**400):
        assert changed(folder, bound=threshold, met=False) == 5, threshold
    one = json.loads((folder / "certificate.json").read_text("utf-8"))["quantities"][1]
    for bound in (one["bound"] + 1e-6, one["bound"] - 1e-6, None, "90%"):
        assert changed(folder, 1, bound=bound, met=False) == 5, bound


@pytest.mark.parametrize("block", blocks(20, 400))
def test_both_verifiers_agree_on_percentages(block: range, tmp_path: Path) -> None:
    """On the same problems as the first verifier: own certificates hold, a threshold beside the right one does not."""
    for seed in block:
        problem = random_range(seed)
        policy = policy_of(problem)
        honest = veil.certify(problem, policy, 0.05, progress=False)
        folder = saved(tmp_path / "it", problem, policy, honest)
        assert second.main([str(folder)])[1] == 0, (seed, second.main([str(folder)]))
        ends = return_extremes(problem)
        off = 1e-6 * (ends.largest - ends.smallest) + 1e-9 * abs(honest.threshold or 0.0) + 1e-12
        assert changed(folder, bound=(honest.threshold or 0.0) + off, met=False) == 5, seed


def test_an_infinite_sum_after_no_steps_has_an_error_of_its_own(tmp_path: Path) -> None:
    """A decision-free horizon: the error that is allowed is a share of the infinite sum, not of the steps before it."""
    problem = random_range(21)
    assert (problem.horizon, problem.return_over) == (0, "infinite")
    policy = policy_of(problem)
    honest = veil.certify(problem, policy, 0.05, progress=False)
    folder = saved(tmp_path / "it", problem, policy, honest)
    assert second.main([str(folder)])[1] == 0
    one = honest.quantities[0]
    most = 2 * abs(one.value) / 2**24
    for error, held in ((0.9 * most, 0), (1.1 * most, 5)):
        assert changed(folder, error=error, met=False) == held, error


def test_the_second_verifier_limits_errors(tmp_path: Path) -> None:
    """A return of 1000 within 2000 says nothing; rows that sum to one within 1e-9 leave room for an honest error."""
    problem = random_range(0)
    policy = policy_of(problem)
    folder = saved(tmp_path / "it", problem, policy, veil.certify(problem, policy, 1, progress=False))
    assert code(folder) == 0
    for value, error in ((1000.0, 2000.0), (0.0, 1e3), (0.0, 1e300), (0.0, -1.0), (0.0, "5"), (0.0, True)):
        assert changed(folder, value=value, error=error, met=False) == 5, (value, error)


@pytest.mark.parametrize("wrong", ["certificate", "problem", "policy"])
def test_verify_names_an_argument_of_another_kind(wrong: str):
    problem = veil.gallery.load("two-rooms").replace(horizon=2)
    policy = veil.MarkovPolicy.uniform(problem)
    arguments = {"certificate": veil.certify(problem, policy, 0.5), "problem": problem, "policy": policy}
    with pytest.raises(veil.InputError, match=wrong):
        veil.verify(*(None if name == wrong else one for name, one in arguments.items()))  # pyright: ignore
