"""Play as the guard without a page: beliefs and scores against the library, and what is told when."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from veil.common.errors import InputError, VeilError
from veil.formats.scenario.load import read_scenario
from veil.studio import playing
from veil.studio.guarding import Post, Watch, post_of
from veil.studio.routes import Refused
from veil.studio.state import Studio

CORRIDOR = """
name = "corridor"
horizon = 3
[grid]
drawing = '''
a? a S b b
'''
[grid.sensors.a]
name = "west"
detection = 0.8
false_alarm = 0.1
[grid.sensors.b]
name = "east"
detection = 0.7
[secret]
kind = "last_state"
[querying]
costs = { east = 0.25 }
"""
EACH = CORRIDOR.replace('kind = "last_state"', 'kind = "state_now"\nstates = ["r0c0", "r0c1"]')
WEST, EAST, NONE = 0, 1, 2
RUNS = 80


def begun(tmp_path: Path, text: str) -> tuple[Studio, dict[str, Any]]:
    studio = Studio(tmp_path / "studio")
    studio.set_scenario(text, name="corridor")
    return studio, playing.start({"role": "guard"}, studio)


def act(studio: Studio, game: dict[str, Any], what: str, **more: object) -> dict[str, Any]:
    return playing.act({"play": game["play"], "act": what, **more}, studio)


def entropy(row: np.ndarray) -> float:
    return float(-sum(p * np.log2(p) for p in row if p > 0))


def test_the_belief_is_that_of_the_library(tmp_path: Path):
    studio, game = begun(tmp_path, CORRIDOR)
    asked = read_scenario(CORRIDOR).problem
    assert [one["name"] for one in game["queries"]] == list(asked.model.actions)
    assert [one["cost"] for one in game["queries"]] == [0, 0.25, 0]
    assert game["horizon"] == 4
    assert dict(map(tuple, game["belief"])) == {2: pytest.approx(1)}  # of the first state, before anything is asked
    for _ in range(4):
        observer = veil.ObserverFilter(asked, veil.MarkovPolicy.uniform(asked))
        truths, now = [], game
        for query in (WEST, EAST, NONE, WEST):
            now = act(studio, game, "ask", action=query)
            action, _, answer = now["seen"][-1].partition(" · ")
            observer.update((action, answer))
            assert action == asked.model.actions[query]
            assert now["posterior"] == pytest.approx(observer.posterior, abs=1e-12)
            assert sum(p for _, p in now["belief"]) == pytest.approx(1)
            places = np.zeros(5)
            for state, p in zip(asked.model.states, np.asarray(observer.state_belief), strict=True):
                if state.startswith("r0c"):
                    places[int(state[3])] += p
            assert dict(map(tuple, now["belief"])) == pytest.approx({k: p for k, p in enumerate(places) if p > 1e-9})
            truths.append("result" in now)
        assert truths == [False, False, False, True]
        assert now["result"]["left"] == pytest.approx(entropy(np.array(observer.posterior)))
        assert now["result"]["paid"] == 0.25
        assert now["result"]["probability"] == pytest.approx(observer.posterior[now["result"]["truth"]])
        act(studio, game, "again")


def left_by(post: Post, query: int | None) -> np.ndarray:
    """What is left in some runs, asking always the same, or what the best rule asks."""
    found = []
    for seed in range(RUNS):
        watch = Watch(post, np.random.default_rng(seed))
        while not watch.is_over:
            watch.move(watch.advice()["best"] if query is None else query)
        found.append(watch.left)
    return np.array(found)


@pytest.mark.parametrize("text", [CORRIDOR, EACH])
def test_what_is_left_is_that_of_the_library_on_average(text: str):
    post = post_of(text, "corridor", None)
    asked = post.problem
    always = veil.MarkovPolicy(np.eye(asked.num_actions)[[WEST] * asked.num_states])
    known = [veil.opacity(asked.replace(agent_sees="state"), always).bits, veil.opacity(asked, post.plan.policy).bits]
    assert known[1] == pytest.approx(post.plan.upper, abs=1e-9)
    for query, bits in zip((WEST, None), known, strict=True):
        left = left_by(post, query)
        assert left.mean() == pytest.approx(bits, abs=5 * left.std() / np.sqrt(RUNS) + 1e-9)


def test_rounds_are_counted(tmp_path: Path):
    studio, game = begun(tmp_path, CORRIDOR)
    left, now = [], game
    for _ in range(2):
        for _ in range(game["horizon"]):
            now = act(studio, game, "ask", action=EAST)
        left.append(now["result"]["left"])
        now = act(studio, game, "again")
    assert (now["score"]["rounds"], now["score"]["left"], now["score"]["paid"]) == (
        2,
        pytest.approx(np.mean(left)),
        1.0,
    )
    assert now["score"]["floor"] <= now["score"]["plan"] <= now["score"]["greedy"] + 1e-9


def test_who_leaves_the_plan_is_advised_from_there(tmp_path: Path):
    studio, game = begun(tmp_path, CORRIDOR)
    assert act(studio, game, "advise")["advice"]["how"] == "The best plan found"
    planned = act(studio, game, "advise")["advice"]["best"]
    act(studio, game, "ask", action=next(one for one in (WEST, EAST, NONE) if one != planned))
    assert "looks ahead" in act(studio, game, "advise")["advice"]["how"]


def test_the_position_and_the_secret_are_told_at_the_end_alone(tmp_path: Path):
    studio, game = begun(tmp_path, CORRIDOR)
    told = [game]
    for _ in range(game["horizon"]):
        assert not {"at", "state", "result", "seed"} & set(told[-1])
        told.append(act(studio, game, "ask", action=NONE))
    assert told[-1]["over"]
    assert 0 <= told[-1]["at"] < 5
    again = playing.show({"play": game["play"]}, Studio(studio.folder))
    assert again["seen"] == told[-1]["seen"]


def test_other_acts_and_scenarios_are_refused(tmp_path: Path):
    studio, game = begun(tmp_path, CORRIDOR)
    for what, more in (
        ("ask", {"action": 3}),
        ("ask", {"action": True}),
        ("ask", {}),
        ("move", {"action": 0}),
        ("next", {}),
    ):
        with pytest.raises((VeilError, Refused)):
            act(studio, game, what, **more)
    assert playing.show({"play": game["play"]}, studio)["time"] == 0
    studio.open("gallery:two-rooms")
    with pytest.raises(InputError, match="querying"):
        playing.start({"role": "guard"}, studio)
    with pytest.raises(InputError, match="guard"):
        act(studio, playing.start({"role": "observer"}, studio), "ask", action=0)
