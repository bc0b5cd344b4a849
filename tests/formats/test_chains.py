"""The chain that a policy induces, as files for other programs."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.formats.policies import policies, watched
from tests.formats.storm import stormpy, value
from tests.random_problems import random_case
from tests.seeds import looped
from veil.common.errors import TooLargeError
from veil.formats import gallery
from veil.formats.arrays.files import chain_to_arrays
from veil.formats.drn.files import chain_to_drn, from_drn


@looped("seed", range(12))
def test_storm_and_veil_agree_on_the_return_of_a_policy(seed: int, tmp_path: Path):
    case = random_case(seed)
    problem, model = case.problem, case.problem.model
    if problem.horizon == 0 or problem.discount < 1:
        models = [
            type(model)(m.matrices, m.rewards, m.initial, 1.0, m.terminal_rewards, available=m.available)
            for m in problem.models
        ]
        problem = veil.Problem(models, problem.observer, problem.secret, problem.horizon)
    chain = chain_to_drn(tmp_path / "c.drn", problem, case.policy)
    built = stormpy().build_model_from_drn(str(tmp_path / "c.drn"))
    steps = problem.horizon + (np.count_nonzero(chain.start) > 1 or chain.start.max() != 1)
    found = value(built, f'R{{"reward"}}=? [C<={steps}]')
    if chain.terminal_rewards.any():
        found += value(built, f'R{{"terminal"}}=? [I={steps}]')
    assert found == pytest.approx(veil.expected_return(problem, case.policy), abs=1e-9)


def test_labels_mark_the_secret(tmp_path: Path):
    problem = gallery.load("office-patrol")
    chain = chain_to_drn(tmp_path / "c.drn", problem, veil.MarkovPolicy.uniform(problem))
    read = from_drn(tmp_path / "c.drn")
    assert {name for name in read.labels if name.startswith("secret_")} <= {"secret_secret", "secret_safe"} | {
        f"secret_{v}" for v in problem.secret_values
    }
    assert read.model.num_states in (chain.num_states, chain.num_states + 1)


def test_arrays_as_hmmlearn_names_them(tmp_path: Path):
    problem = watched()
    chain = chain_to_arrays(tmp_path / "c.npz", problem, policies(problem)["timed"])
    with np.load(tmp_path / "c.npz", allow_pickle=False) as loaded:
        assert set(loaded) == {
            "startprob_", "transmat_", "emissionprob_", "rewards", "terminal_rewards", "states", "symbols",
        }  # fmt: skip
        assert np.array_equal(loaded["transmat_"], chain.transitions.toarray())
        assert np.array_equal(loaded["emissionprob_"], chain.emissions)
        assert loaded["symbols"].tolist() == list(chain.symbols)
        assert loaded["transmat_"].sum(axis=1) == pytest.approx(np.ones(chain.num_states))


def test_a_chain_that_is_too_large_is_not_written(tmp_path: Path):
    size = 2**13 + 1
    model = veil.Model([sp.eye_array(size, format="csr")], np.zeros((size, 1)), np.full(size, 1 / size))
    problem = veil.Problem(model, veil.Observer(np.ones((size, 1))), veil.LastState([0]), 1)
    with pytest.raises(TooLargeError):
        chain_to_arrays(tmp_path / "c.npz", problem, veil.MarkovPolicy.uniform(problem))
    assert not list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
