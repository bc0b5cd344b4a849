"""Masks over every kind of secret: the question stays the same, in memory and in files."""

from pathlib import Path

import numpy as np
import pytest

import veil
from tests.problem.test_masks import random_problem
from veil.problem.secrets.secret import Secret

STEP = {("even", "x"): "odd", ("odd", "x"): "even", ("even", "y"): "even", ("odd", "y"): "odd"}
SECRETS: dict[str, Secret] = {
    "last": veil.LastState({"s1"}),
    "groups": veil.LastState(groups={"a": [0], "b": [1, 2]}),
    "at": veil.StateAt(1, {2}),
    "initial": veil.InitialState(),
    "starts": veil.InitialState({"a": [0, 1], "b": [2]}),
    "visited": veil.Visited({"left": [0], "right": ["s2"]}),
    "automaton": veil.Automaton(STEP, "even", ["odd"], {"s1": "x", 2: "x"}, default_label="y"),
    "automaton, known": veil.Automaton(STEP, "even", ["odd"], {1: "x", 0: "y", 2: "y"}, agent_knows=True),
    "automaton state": veil.AutomatonState(STEP, "even", {"s1": "x"}, default_label="y"),
    "formula": veil.Holds("F a", {"a": ["s1"]}),
    "path": veil.Trajectory(),
}
KEPT = ("last", "groups", "at", "starts", "visited", "automaton", "automaton, known", "automaton state", "formula")


def never_masking(problem: veil.Problem, rows: np.ndarray) -> veil.MarkovPolicy:
    """The policy of a plain problem in the one with masks: three masks, of which it takes the first."""
    wide = np.zeros((len(rows), 3, rows.shape[1], 3))
    wide[:, :, :, 0] = rows[:, None]
    return veil.MarkovPolicy(wide.reshape(len(rows) * 3, -1))


@pytest.mark.parametrize("kind", SECRETS)
def test_who_never_masks_hides_what_he_hid_before(kind: str, tmp_path: Path) -> None:
    for seed in range(4):
        problem = random_problem(seed).replace(secret=SECRETS[kind])
        rng = np.random.default_rng(seed)
        rows = rng.dirichlet(np.ones(problem.num_actions), size=problem.num_cells)
        masked = veil.Masks().apply(problem)
        plain = veil.opacity(problem, veil.MarkovPolicy(rows), "exact")
        policy = never_masking(masked, rows)
        found = veil.opacity(masked, policy, "exact")
        assert found.bits == pytest.approx(plain.bits, abs=1e-12), f"seed {seed}"
        assert found.prior_bits == pytest.approx(plain.prior_bits, abs=1e-12), f"seed {seed}"
        if kind in KEPT:
            masked.save(tmp_path / "masked.toml")
            again = veil.load(tmp_path / "masked.toml")
            assert again.secret_values == problem.secret_values
            assert veil.opacity(again, policy, "exact").bits == pytest.approx(plain.bits, abs=1e-12), f"seed {seed}"
