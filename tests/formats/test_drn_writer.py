"""DRN files that veil writes: read back as the same model, and by Storm with the same returns."""

from pathlib import Path

import numpy as np
import pytest

import veil
from tests.formats.storm import stormpy, value
from tests.random_problems import random_case
from tests.seeds import looped
from veil.common.errors import InputError
from veil.formats import gallery
from veil.formats.drn.files import from_drn, parse_drn
from veil.formats.drn.writer import format_drn
from veil.formats.imported import Imported
from veil.problem.model import Model
from veil.problem.observer import Observer


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
