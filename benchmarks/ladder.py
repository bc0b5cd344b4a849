"""The ladder: what time-dependence and memory add to a stationary policy, up to the best policy of all and the proven bound."""

import time
from dataclasses import dataclass

import numpy as np

import veil
from benchmarks.common import Settings, markdown_table, say, seconds_text
from veil.common.clock import Clock
from veil.game.solve import solve_game
from veil.planning.solve import solve

# The authors' published policies, evaluated exactly: opacity and return of their last-state run 6.
PUBLISHED_BITS, PUBLISHED_RETURN, PUBLISHED_TIME = 0.2811, 0.6850, "about 5 h"
STARTS, ITERATIONS = 2, 300  # of a rung that begins from the one below
_RUNG_SECONDS, _GAME_SECONDS, _GAP = 60.0, 60.0, 1e-3


@dataclass(frozen=True)
class Ladder:
    """A problem of the gallery with its threshold."""

    name: str
    min_return: float
    sees_initial: bool = True

    @property
    def title(self) -> str:
        seen = "" if self.sees_initial else ", `o_0` not seen"
        return f"{self.name} at return {self.min_return:g}{seen}"

    def problem(self) -> veil.Problem:
        found = veil.gallery.load(self.name, sees_initial=self.sees_initial)
        return found.replace(min_return=self.min_return, agent_sees="state+observations")


LADDERS = (
    Ladder("later-last-state", 0.685),
    Ladder("paper-last-state", 0.3),
    Ladder("paper-last-state", 0.4057),
    Ladder("paper-initial-state", 0.3),
    Ladder("paper-initial-state", 0.3, sees_initial=False),
)


@dataclass(frozen=True)
class Rung:
    """One class of policies: what its best policy found hides and earns. A bound has no return."""

    words: str
    source: str
    bits: float
    expected_return: float | None
    seconds: float | None
    note: str = ""


def reward_zones(problem: veil.Problem) -> list[list[int]]:
    """One zone for each state that pays: whether the agent has been paid there is what it remembers."""
    pays = np.asarray(problem.model.rewards).max(axis=1) + problem.model.terminal_rewards
    return [[int(state)] for state in np.flatnonzero(pays > 0)]


def climb_ladder(ladder: Ladder, quick: bool) -> list[Rung]:
    """All rungs of one ladder, each begun from the best policy of the one below."""
    problem = ladder.problem()
    rungs: list[Rung] = []

    def rung(memory, source: str, start=None):
        settings = {} if start is None else {"start": start, "starts": STARTS, "iterations": ITERATIONS}
        limit = 3.0 if quick else _RUNG_SECONDS
        found = solve(problem, memory=memory, time_limit=limit, progress=False, certificate=False, **settings)
        note = "" if found.status is veil.Status.CONVERGED else found.status.name.lower().replace("_", " ")
        note = note if found.feasible else "infeasible"
        words = found.policy_class + (" (sees the observations)" if found.needs_observations else "")
        rungs.append(Rung(words, source, found.opacity.bits, found.expected_return, found.seconds, note))
        return found.policy

    stationary = rung("markov", "–")
    timed = rung("timed", "stationary", stationary)
    rung(veil.StateMemory(1), "clock", timed)
    rung(veil.ZoneMemory(reward_zones(problem)), "clock", timed)
    rung(veil.Controller(2, clock=True), "clock", timed)
    once = rung(veil.ObservationMemory(1), "clock", timed)
    rung(veil.ObservationMemory(2), "one observation", once)
    begin = time.perf_counter()
    game = solve_game(problem, threshold=ladder.min_return, gap=_GAP, clock=Clock(5.0 if quick else _GAME_SECONDS))
    seconds = time.perf_counter() - begin
    words = "history policies (see the observations)"
    rungs.append(Rung(words, "the game", game.lower, game.expected_return, seconds, game.stopped))
    rungs.append(Rung("**proven upper bound over all policies**", "the game", game.upper, None, seconds))
    return rungs


def ladder_text(ladder: Ladder, rungs: list[Rung]) -> str:
    """The table of one ladder; what each class adds is over the best stationary policy found."""
    header = ["class of policies", "begun from", "bits", "over stationary", "return", "time", "note"]
    rows = []
    if ladder.name == "later-last-state":
        cells = ["stationary, published by the authors", "–", f"{PUBLISHED_BITS:.4f}"]
        rows.append([*cells, "", f"{PUBLISHED_RETURN:.4f}", PUBLISHED_TIME, ""])
    for rung in rungs:
        returned = "–" if rung.expected_return is None else f"{rung.expected_return:.6f}"
        took = "–" if rung.seconds is None else seconds_text(rung.seconds)
        added = f"{rung.bits - rungs[0].bits:+.4f}"
        rows.append([rung.words, rung.source, f"{rung.bits:.4f}", added, returned, took, rung.note])
    return f"**{ladder.title}**\n\n{markdown_table(header, rows)}"


def ladders(settings: Settings) -> tuple[Ladder, ...]:
    """All of them; a quick run takes the small one."""
    return LADDERS[1:2] if settings.quick else LADDERS


def tell(ladder: Ladder, rungs: list[Rung]) -> None:
    say(f"ladder {ladder.title}: {rungs[0].bits:.4f} stationary, {rungs[-2].bits:.4f} with full history,",
        f"bound {rungs[-1].bits:.4f}")  # fmt: skip
