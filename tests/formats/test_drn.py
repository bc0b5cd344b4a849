"""DRN files: read by hand, and as Storm writes them."""

from pathlib import Path

import numpy as np
import pytest

from tests.formats.classics import DATA
from tests.formats.storm import build, stormpy
from tests.seeds import looped
from veil.common.errors import InputError
from veil.formats.drn.files import from_drn, parse_drn
from veil.formats.prism.files import from_stormpy

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
