"""Starters load as they are, the gallery survives being written, and what is written is what is read."""

from pathlib import Path

import numpy as np
import pytest

from tests.seeds import looped
from veil.common.errors import InputError
from veil.formats import gallery
from veil.formats.gallery import starter
from veil.formats.imported import Imported
from veil.formats.scenario.load import load_scenario, read_scenario
from veil.formats.scenario.toml import to_toml
from veil.problem.fingerprint import fingerprint
from veil.problem.model import Model
from veil.problem.observer import Observer
from veil.problem.problem import Problem
from veil.problem.secrets.initial_state import InitialState
from veil.problem.secrets.last_state import LastState


@looped("kind", ["grid", "graph"])
def test_starters_load(kind: str):
    scenario = read_scenario(starter(kind))
    assert scenario.problem.min_return is not None
    assert scenario.settings["time_limit"] == 60
    assert starter(kind).count("#") > 10


def test_the_starter_of_a_file_loads_beside_a_model(tmp_path: Path):
    Imported(gallery.load("two-rooms").model).save(tmp_path / "model.npz")
    (tmp_path / "scenario.toml").write_text(starter("file"))
    assert load_scenario(tmp_path / "scenario.toml").problem.observer.observations.all() == ("0", "tower")


def test_odd_names_in_every_place():
    states, actions = ["a.b", 'a"b', "a'b", "back\\slash", "ä 🙂", "tab\t"], ["\x7f", "\x00\x1f", "[x]"]
    seen = ["plain", "#", "=", "two words", "\x00"]
    rng = np.random.default_rng(0)
    model = Model(
        rng.dirichlet(np.ones(6), size=(6, 3)),
        rng.normal(size=(6, 3)),
        rng.dirichlet(np.ones(6)),
        0.9,
        None,
        states,
        actions,
    )
    watcher = Observer(
        rng.dirichlet(np.ones(5), size=(3, 6)), seen, silent=seen[0], sensors={"x y": {seen[1]: seen[0]}}
    )
    for secret in (LastState(states[:2]), InitialState({"a b": states[:3], "#": states[3:]})):
        problem = Problem(model, watcher, secret, 2, "12.5%")
        assert fingerprint(read_scenario(to_toml(problem, "a story\n\nof two")).problem) == fingerprint(problem)


def test_a_kind_that_is_not_registered_is_refused():
    class Other(LastState):
        kind = "other"

    model = Model(np.ones((1, 1, 1)), [0.0], [1.0])
    for secret, words in ((Other([0]), "Other.*entry points"), (type("LastState", (LastState,), {})([0]), "LastState")):
        with pytest.raises(InputError, match=words):
            to_toml(Problem(model, Observer([[1.0]]), secret, 1))
