"""DRN files: models read and written, and the chain that a policy induces; by Storm with the same numbers."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.formats.classics import DATA
from tests.formats.policies import policies, watched
from tests.formats.storm import build, stormpy, value
from tests.random_problems import random_case
from tests.seeds import looped
from veil.common.errors import InputError, TooLargeError
from veil.formats import gallery
from veil.formats.arrays.files import chain_to_arrays
from veil.formats.drn.files import chain_to_drn, from_drn, parse_drn
from veil.formats.drn.writer import format_drn
from veil.formats.imported import Imported
from veil.formats.prism.files import from_stormpy
from veil.problem.model import Model
from veil.problem.observer import Observer

CORRIDOR = DATA / "corridor.drn"


def test_the_corridor_by_hand():
    read = from_drn(CORRIDOR, reward_model="steps")
    model = read.model
    assert set(model.actions.all()) == {"east", "wait", "west", "open", "unlabelled"}
    east, west = model.actions.find("east"), model.actions.find("west")
    assert model.transitions[:2, east].tolist() == [[0.25, 0.75, 0, 0], [0, 0.25, 0.75, 0]]
    assert model.transitions[2, west].tolist() == [0, 1, 0, 0]
    assert model.available.sum() == 7
    assert model.initial.tolist() == [1, 0, 0, 0]
    assert model.rewards[:, east].tolist() == [1, 1, 0, 0]
    assert read.labels["half way"].tolist() == [False, True, False, False]
    assert read.states_where("x=2 & !door") == (2,)
    assert read.states_where("door") == (3,)
    assert read.observer is not None
    assert read.observer.emissions.argmax(axis=1).tolist() == [0, 1, 1, 2]
    gold = from_drn(CORRIDOR, reward_model="gold")
    assert gold.model.rewards[3, model.actions.find("unlabelled")] == 2.5
    assert gold.model.rewards[2, model.actions.find("open")] == 5
    assert "rewards left out: steps" in gold.notes
    assert "4: door=false,x=0" in read.summary()


def test_which_rewards_must_be_said():
    with pytest.raises(InputError, match="choose one, reward_model='gold'"):
        from_drn(CORRIDOR)
    with pytest.raises(InputError, match="known are 'gold', 'steps'"):
        from_drn(CORRIDOR, reward_model="time")


def test_chains_several_starts_and_rows_of_eight_digits():
    text = (
        "@type: DTMC\n@parameters\n\n@reward_models\n\n@nr_states\n3\n@model\n"
        "state 0 init\n\taction 0\n\t\t0 : 0.33333333\n\t\t1 : 0.33333333\n\t\t2 : 0.33333333\n"
        "state 1 init\n\t2 : 1\nstate 2\n\t2 : 1\n"
    )
    read = parse_drn(text)
    assert read.model.initial.tolist() == [0.5, 0.5, 0]
    assert read.model.transitions[0].sum() == pytest.approx(1, abs=1e-15)
    assert any("divided by their sums" in note for note in read.notes)
    assert any("2 initial states are taken as equally likely" in note for note in read.notes)
    assert any("no rewards" in note for note in read.notes)


def test_choices_of_one_label_are_told_apart():
    text = (
        "@type: MDP\n@parameters\n\n@reward_models\n\n@nr_states\n2\n@nr_choices\n4\n@model\n"
        "state 0 init\n\taction go\n\t\t0 : 1\n\taction go\n\t\t1 : 1\n\taction go\n\t\t0 : 0.5\n\t\t1 : 0.5\n"
        "state 1\n\taction go\n\t\t1 : 1\n"
    )
    model = parse_drn(text).model
    assert model.actions.all() == ("go", "go#2", "go#3")
    assert model.transitions[0].tolist() == [[1, 0], [0, 1], [0.5, 0.5]]
    assert model.available[1].tolist() == [True, False, False]


@looped("name", ["grid.prism", "maze.prism"])
def test_what_storm_exports_is_what_it_built(name: str, tmp_path: Path):
    storm, model = stormpy(), build(DATA / name)
    path = tmp_path / "model.drn"
    storm.io.export_to_drn(model, str(path))
    reward = "cost" if name == "grid.prism" else None
    built, read = from_stormpy(model, reward_model=reward), from_drn(path, reward_model=reward)
    order = [read.model.actions.find(action) for action in built.model.actions.all()]
    assert read.model.transitions[:, order] == pytest.approx(built.model.transitions, abs=1e-9)
    assert read.model.rewards[:, order] == pytest.approx(built.model.rewards, abs=1e-9)
    assert np.array_equal(read.model.available[:, order], built.model.available)
    for label in built.labels:
        assert np.array_equal(read.labels[label], built.labels[label])
    if built.observer is not None:
        assert read.observer is not None
        assert np.array_equal(read.observer.emissions, built.observer.emissions)


def random_model(seed: int, *, certain: bool = True) -> Model:
    """A random model without terminal rewards, with one start state or several."""
    model = random_case(seed).problem.model
    initial = np.eye(model.num_states)[0] if certain else model.initial
    return Model(model.matrices, model.rewards, initial, model.discount, available=model.available)


@looped("seed", range(15))
def test_random_models_come_back(seed: int):
    model = random_model(seed)
    read = parse_drn(format_drn(model, labels={"odd": np.arange(model.num_states) % 2 == 1}), rescale=0).model
    order = [read.actions.find(name) for name in model.actions.all() if name in read.actions.all()]
    taken = model.available.any(axis=0)
    assert np.array_equal(read.transitions[:, order], model.transitions[:, taken])
    assert np.array_equal(read.rewards[:, order], np.where(model.available, model.rewards, 0)[:, taken])
    assert np.array_equal(read.available[:, order], model.available[:, taken])
    assert np.array_equal(read.initial, model.initial)


@looped("seed", range(6))
def test_storm_finds_the_same_best_return(seed: int, tmp_path: Path):
    storm = stormpy()
    model = random_model(seed)
    Imported(model).save(tmp_path / "m.drn")
    built = storm.build_model_from_drn(str(tmp_path / "m.drn"))
    problem = veil.Problem(Model(model.matrices, model.rewards, model.initial, available=model.available),
                           Observer(np.ones((model.num_states, 1))), veil.LastState([0]), 6)  # fmt: skip
    assert veil.max_return(problem) == pytest.approx(value(built, 'R{"reward"}max=? [C<=6]'), abs=1e-9)


def test_a_spread_start_becomes_a_step_of_its_own(tmp_path: Path):
    model = Model(np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), [1.0, 3.0], [0.25, 0.75])
    text = format_drn(model)
    read = parse_drn(text).model
    assert read.initial.tolist() == [1, 0, 0]
    start = read.actions.find("start")
    assert read.transitions[0, start].tolist() == [0, 0.25, 0.75]
    assert read.rewards[0, start] == 0
    storm = stormpy()
    (tmp_path / "m.drn").write_text(text)
    built = storm.build_model_from_drn(str(tmp_path / "m.drn"))
    watched = veil.Problem(model, Observer(np.ones((2, 1))), veil.LastState([0]), 4)
    assert value(built, 'R{"reward"}max=? [C<=5]') == pytest.approx(veil.max_return(watched), abs=1e-9)


def test_observations_and_labels_are_kept(tmp_path: Path):
    model = random_model(3)
    watcher = Observer(np.eye(2)[np.arange(model.num_states) % 2])
    labels = {"half way": np.arange(model.num_states) == 1, "goal": np.arange(model.num_states) == 0}
    Imported(model, watcher, labels=labels).save(tmp_path / "m.drn")
    read = from_drn(tmp_path / "m.drn")
    assert read.observer is not None
    assert np.array_equal(read.observer.emissions, watcher.emissions)
    assert {name: mask.tolist() for name, mask in read.labels.items()} == {
        name: mask.tolist() for name, mask in labels.items()
    }
    built = stormpy().build_model_from_drn(str(tmp_path / "m.drn"))
    assert built.is_partially_observable
    assert list(built.observations) == (np.arange(model.num_states) % 2).tolist()
    assert built.labeling.get_labels() >= {"goal", "init"}


def test_what_the_format_cannot_say():
    model = random_model(3)
    with pytest.raises(InputError, match="draws its observations"):
        format_drn(model, Observer(np.full((model.num_states, 2), 0.5)))
    with pytest.raises(InputError, match="terminal rewards"):
        format_drn(gallery.load("two-rooms").model)


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
