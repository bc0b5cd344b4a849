"""The pane Play without a page: what is told when, scores against the library, and games that outlive the server."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from veil.common.errors import InputError, VeilError
from veil.formats.gallery import scenario_text
from veil.formats.scenario.load import read_scenario
from veil.studio import playing
from veil.studio.routes import Refused
from veil.studio.state import Studio
from veil.studio.walking import Walk

MANY = 60  # games, more than are kept


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    made = Studio(tmp_path / "studio")
    made.open("gallery:office-patrol")
    return made


def begin(studio: Studio, role: str) -> dict[str, Any]:
    return playing.start({"role": role, "run": "uniform"}, studio)


def act(studio: Studio, game: dict[str, Any], what: str, **more: object) -> dict[str, Any]:
    return playing.act({"play": game["play"], "act": what, **more}, studio)


def test_the_observer_sees_one_observation_after_another_and_no_secret_before_the_guess(studio: Studio):
    game = begin(studio, "observer")
    problem = veil.gallery.load("office-patrol")
    told = [game]
    for _ in range(problem.horizon):
        told.append(act(studio, game, "next"))
    assert [len(one["seen"]) for one in told] == list(range(1, problem.horizon + 2))
    assert all(one["seen"] == told[-1]["seen"][: len(one["seen"])] for one in told)
    for one in told:  # neither the run nor anything that follows from it
        assert not {"result", "revealed", "posterior", "state", "at", "seed"} & set(one)
    with pytest.raises(InputError, match="all observations"):
        act(studio, game, "next")


def test_the_score_is_that_of_the_library(studio: Studio):
    game, problem = begin(studio, "observer"), veil.gallery.load("office-patrol")
    policy = veil.MarkovPolicy.uniform(problem)
    rights, bits, bayes_bits, score = [], [], [], {}
    for number in range(4):
        for _ in range(problem.horizon - number):  # sometimes before the end
            act(studio, game, "next")
        seen = act(studio, game, "guess", value=1, probability=0.8)
        observer = veil.ObserverFilter(problem, policy)
        for event in seen["seen"]:
            observer.update(event)
        result = seen["result"]
        assert result["bayes_posterior"] == pytest.approx(observer.posterior)
        truth = problem.secret_values.index(seen["revealed"][0]["secret"])
        assert result["truth"] == truth
        rights.append(truth == 1)
        bits.append(-np.log2(0.8 if truth == 1 else 0.2))
        bayes_bits.append(-np.log2(observer.posterior[truth]))
        score = seen["score"]
        if number < 3:
            act(studio, game, "again")
    assert score["rounds"] == 4
    assert (score["right"], score["bits"]) == pytest.approx((np.mean(rights), np.mean(bits)))
    assert score["bayes_bits"] == pytest.approx(np.mean(bayes_bits))
    assert score["best_bits"] == pytest.approx(veil.opacity(problem, policy).bits)
    table = veil.measures.joint_table(problem, policy)
    assert score["best_right"] == pytest.approx(table.guess_probability)
    assert score["proven_bits"] is None  # a policy that was only measured has no certificate


def test_the_agent_walks_and_the_observer_follows(studio: Studio):
    game, problem = begin(studio, "agent"), veil.gallery.load("office-patrol")
    observer = veil.ObserverFilter(problem, veil.MarkovPolicy.uniform(problem))
    earned = 0.0
    for _ in range(problem.horizon):
        observer.update(game["seen"][-1])
        assert game["posterior"] == pytest.approx(observer.posterior)
        assert sum(chance for _, chance in game["belief"]) == pytest.approx(1)
        action = game["available"][0]
        earned += problem.model.rewards[problem.model.states.find(game["state"]), action]
        game |= act(studio, game, "move", action=action)
    observer.update(game["seen"][-1])
    assert game["over"]
    assert game["earned"] == pytest.approx(earned)
    secret = game["result"]["truth"]
    assert secret == problem.secret_table.label[0, 0, problem.model.states.find(game["state"])]
    assert game["result"]["bayes_bits"] == pytest.approx(-np.log2(observer.posterior[secret]))
    with pytest.raises(InputError, match="over"):
        act(studio, game, "move", action=0)


def test_a_game_goes_on_after_the_server_was_ended(studio: Studio):
    game = begin(studio, "agent")
    for _ in range(3):
        game |= act(studio, game, "move", action=1)
    again = playing.show({"play": game["play"]}, Studio(studio.folder))
    assert {key: again[key] for key in ("state", "seen", "posterior", "earned", "time")} == {
        key: game[key] for key in ("state", "seen", "posterior", "earned", "time")
    }
    other = begin(studio, "observer")
    act(studio, other, "next")
    studio.set_scenario(scenario_text("two-rooms"), name="two-rooms")  # the game keeps its own scenario
    assert playing.show({"play": other["play"]}, studio)["horizon"] == 7


def test_an_observer_who_is_surprised_goes_by_the_prior():
    changed = {
        '["vault", "go", "office"]': '["vault", "go", "hall"],\n  ["hall", "stay", "hall"]',
        "horizon = 1": "horizon = 2",
        '["0", "beep"]': '["0", "beep", "bell"]',
        "vault = { beep = 0.75 }": 'vault = { beep = 0.75 }\nhall = "bell"',
    }
    text = scenario_text("two-rooms")
    for old, new in changed.items():
        text = text.replace(old, new)
    problem = read_scenario(text).problem
    stays = np.zeros((problem.num_states, problem.num_actions))
    stays[:, problem.model.actions.find("stay")] = 1
    walk = Walk(problem, veil.MarkovPolicy(stays), np.random.default_rng(0))
    go = problem.model.actions.find("go")
    walk.move(go)
    walk.move(go)
    assert walk.events[-1] == "bell"
    assert walk.surprised
    assert walk.belief is None
    assert walk.posterior == pytest.approx([1, 0])


WRONG_ACTS: list[tuple[str, dict[str, object]]] = [
    ("guess", {"value": 2, "probability": 0.5}),
    ("guess", {"value": True, "probability": 0.5}),
    ("guess", {"value": 0, "probability": 1}),
    ("guess", {"value": 0, "probability": "0.5"}),
    ("guess", {"value": 0}),
    ("move", {"action": 0}),
    ("again", {}),
    ("flee", {}),
]


def test_wrong_acts_are_refused_and_change_nothing(studio: Studio):
    game = begin(studio, "observer")
    before = {path.name: path.read_bytes() for path in (studio.folder / "games").iterdir()}
    for what, more in WRONG_ACTS:
        with pytest.raises((VeilError, Refused)):
            act(studio, game, what, **more)
        assert {path.name: path.read_bytes() for path in (studio.folder / "games").iterdir()} == before, (what, more)


def test_the_seed_stays_on_the_server(studio: Studio):
    game = begin(studio, "observer")
    kept = json.loads((studio.folder / "games" / f"{game['play']}.json").read_text())
    assert str(kept["seed"]) not in json.dumps(game)


def test_unknown_games_runs_and_roles_are_refused(studio: Studio):
    with pytest.raises(Refused, match="no such game"):
        playing.show({"play": "0" * 16}, studio)
    with pytest.raises(Refused, match="role"):
        begin(studio, "judge")
    for run in ("nothing", "../..", "a\0b"):
        with pytest.raises(Refused, match="no run"):
            playing.start({"role": "agent", "run": run}, studio)


def test_old_games_are_deleted(studio: Studio):
    """Of more than a player needs."""
    games = [begin(studio, "observer")["play"] for _ in range(MANY)]
    left = {path.stem for path in (studio.folder / "games").iterdir()}
    assert 0 < len(left) < MANY
    assert left == set(games[-len(left) :])


def test_a_secret_without_values_to_guess_is_refused(studio: Studio):
    studio.set_scenario(scenario_text("night-round"), name="night-round")
    for role in ("observer", "agent"):
        with pytest.raises(InputError, match="whole path"):
            begin(studio, role)
