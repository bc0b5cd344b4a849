"""Play as the guard: which sensor to ask at each step, what the answers tell, and what the rules of a planner would ask."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime
from ..common.errors import InputError, VeilError
from ..common.rounding import lower_text, upper_text
from ..formats.scenario.load import read_scenario
from ..problem.problem import Problem
from ..querying.beliefs import BeliefSteps, row_bits
from ..querying.best import QueryPlan, best_queries
from ..querying.rules import Layer, greedy_rule, rollout_rule
from ..report.observing import event_text
from ..report.scene import Scene, make_scene
from .walking import Run

_PLAN_SECONDS = 4.0  # for a plan to compare with, and for a rule that looks ahead: a person waits
_ADVICE_SECONDS = 3.0

Game = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Post:
    """Where a guard stands: a problem of queries, the picture of what is watched, and a plan to compare with.

    **Attributes:** `spots`: of each state of the problem its spot in the picture, or -1.
    """

    problem: Problem
    scene: Scene
    spots: np.ndarray
    plan: QueryPlan

    @cached_property
    def steps(self) -> BeliefSteps:
        """How beliefs change."""
        return BeliefSteps(self.problem)

    def facts(self) -> dict[str, Any]:
        """What the page says of the problem."""
        known = f"between {lower_text(self.plan.lower)} and {upper_text(self.plan.upper)} bits"
        verdict = f"The least that a guard can be left with, on average over all runs, is {known}."
        return {"question": self.problem.secret.describe(self.problem), "verdict": verdict}

    def queries(self) -> list[dict[str, Any]]:
        """The names of the actions, and what each costs at most."""
        model = self.problem.model
        costs = model.rewards.max(axis=0).tolist()
        return [{"name": name, "cost": cost} for name, cost in zip(model.actions.all(), costs, strict=True)]


@lru_cache(maxsize=4)
def post_of(text: str, name: str, base: Path | None) -> Post:
    """The post of a scenario with a [querying] table.

    **Raises:** `InputError` if the scenario has no queries, or defects.
    """
    asked = read_scenario(text, source=name, name=name, folder=base).problem
    if asked.agent_sees != "observations" or not asked.observer.sees_actions:
        raise InputError("this scenario", ["it has no sensor to choose: it needs a [querying] table"])
    plan = best_queries(asked, time_limit=_PLAN_SECONDS, progress=False)
    try:
        watched = read_scenario(text, source=name, name=name, folder=base, changes=["querying="]).problem
    except VeilError:  # something else in the text needs the queries, such as a bound on their costs
        watched = asked
    scene = make_scene(watched)
    return Post(asked, scene, _spots(asked, watched, scene), plan)


def _spots(asked: Problem, watched: Problem, scene: Scene) -> np.ndarray:
    """The spot of each state: its name begins with that of the state that is watched (`Querying.apply`)."""
    names = asked.model.states.all()
    known = dict(zip(watched.model.states.all(), scene.spots.tolist(), strict=True))
    found = [
        known.get(name, known.get(name.rpartition("@")[0], known.get(name.partition("/")[0], -1))) for name in names
    ]
    return np.array(found)


class Watch(Run):
    """A run that is asked about.

    **Attributes:** `belief`: a normalised row, as `BeliefSteps` has them; `left`: the bits that counted so far; `node`: where
    the plan is in this run, None once another query was asked.
    """

    def __init__(self, post: Post, generator: np.random.Generator):
        self.post, self.left = post, 0.0
        self.belief: Float[np.ndarray, " n"] = np.zeros(0)
        self.node: int | None = None
        super().__init__(post.problem, generator)

    def _told(self, action: int | None, event: int) -> None:
        steps, plan = self.post.steps, self.post.plan.plan
        if action is None:
            row = dict(steps.starts)[event]
            self.node = None if plan is None else plan.nodes[event]
        else:
            answer = np.flatnonzero((steps.answers.action == action) & (steps.answers.event == event))
            row = steps.after(self.time - 1, self.belief[None])[0, answer[0]]
            layer = self._layer(self.time - 1)
            if layer is not None:
                followed = layer.action[self.node] == action
                self.node = int(layer.following[self.node, event]) if followed else None
        self.belief = row / row.sum()
        self.left += float(steps.unknown(self.time, self.belief[None])[0])

    def _layer(self, time: int) -> Layer | None:
        """The plan's beliefs of a time, as long as it was followed."""
        plan = self.post.plan.plan
        return plan.layers[time] if plan is not None and self.node is not None and time < len(plan.layers) else None

    @property
    def posterior(self) -> Float[np.ndarray, " Z"]:
        """What the guard knows of the secret, at the next time that counts."""
        return self.post.steps.next_secret(self.time, self.belief[None])[0]

    @property
    def places(self) -> Float[np.ndarray, " S"]:
        """What the guard knows of the state; before the first query, of the state that this query is about."""
        steps, problem = self.post.steps, self.post.problem
        hidden = self.belief.reshape(steps.values(self.time), -1).sum(axis=0)
        row = np.bincount(steps.hidden.state, hidden, minlength=problem.num_states)
        if (self.post.spots[row > 0] < 0).all():
            row = row @ problem.model.matrices[0]  # whatever is asked: queries change no state
        return row

    def advice(self) -> dict[str, Any]:
        """What the greedy rule would ask here, and what the best plan would, or a rule that looks ahead from here."""
        steps, layer, rows = self.post.steps, self._layer(self.time), self.belief[None]
        greedy, clock = greedy_rule(steps), Clock(_ADVICE_SECONDS)
        found = {"greedy": int(greedy(self.time, rows, Clock(None))[0])}
        if layer is not None:
            return found | {"best": int(layer.action[self.node]), "how": "The best plan found"}
        try:
            best = rollout_rule(steps, greedy, steps.horizon)(self.time, rows, clock)
        except OutOfTime:
            return found | {"best": found["greedy"], "how": "There is no time to look ahead; the greedy rule"}
        return found | {"best": int(best[0]), "how": "A rule that looks ahead along the greedy one"}


def watch_of(game: Game, post: Post) -> Watch:
    """The run of a game, with the queries that were asked."""
    watch = Watch(post, np.random.default_rng((game["seed"], game["round"])))
    for action in game["acts"]:
        watch.move(action)
    return watch


def ask(game: Game, post: Post, action: object) -> None:
    """Ask a sensor; after the last answer the round is scored."""
    watch = watch_of(game, post)
    watch.move(action if isinstance(action, int) and not isinstance(action, bool) else -1)
    game["acts"].append(action)
    if watch.is_over:
        truth = watch.secret
        known = None if truth is None else float(watch.posterior[truth])
        game["rounds"].append({"left": watch.left, "paid": watch.earned, "truth": truth, "probability": known})


def shown_to_guard(game: Game, post: Post, *, advised: bool = False) -> dict[str, Any]:
    """What the guard may know: answers and beliefs; the position only when the round is over."""
    watch = watch_of(game, post)
    posterior = watch.posterior
    shown = np.bincount(post.spots[post.spots >= 0], watch.places[post.spots >= 0], minlength=len(post.scene.shown))
    document: dict[str, Any] = {
        "time": watch.time,
        "seen": [event_text(one) for one in watch.events],
        "posterior": posterior.tolist(),
        "unknown": float(row_bits(posterior[None])[0]),
        "belief": [[int(spot), float(shown[spot])] for spot in np.flatnonzero(shown > 1e-9)],
        "paid": watch.earned,
    }
    if watch.is_over:
        document |= {"result": game["rounds"][-1], "at": int(post.spots[watch.state])}
    return document | ({"advice": watch.advice()} if advised and not watch.is_over else {})


def guard_score(game: Game, post: Post) -> dict[str, Any]:
    """The means over the rounds, and what is known of the best guard."""
    rounds, plan = game["rounds"], post.plan
    means = {key: float(np.mean([one[key] for one in rounds])) for key in ("left", "paid") if rounds}
    return {"rounds": len(rounds), **means, "greedy": plan.greedy, "plan": plan.upper, "floor": plan.lower}
