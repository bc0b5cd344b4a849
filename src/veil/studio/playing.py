"""The pane Play: guess the secret of hidden runs, walk while an observer watches, or choose what to ask as a guard.

A game is a small document on disk: a seed, the number of the round, what the player did in it, and the rounds before. All
that is random follows from the seed, so that a game goes on after the server was ended; the page never learns the seed.
"""

import secrets
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.checks import is_number
from ..common.errors import InputError
from ..common.files import write_whole
from ..common.json_text import parse_json
from ..common.logs import code_lengths_bits
from ..formats.documents import json_text
from ..measure.attack import guess_chances
from ..measure.attack_result import fano_error
from ..report.observing import ObservedRun, event_text, sample_run
from ..report.page_data import run_data, scene_data
from ..report.scene import Scene
from .guarding import Post, ask, guard_score, post_of, shown_to_guard
from .looking import UNIFORM, Subject, subject_of, subject_of_text
from .routes import Refused, Request, text_of
from .walking import Walk

if TYPE_CHECKING:
    from .state import Studio

_FORMAT = "veil-play-1"
_FOLDER = "games"
_ROLES = ("observer", "agent", "guard")
_MOST_GAMES = 50
_MOST_ROUNDS = 10_000
_LEAST, _MOST = 0.01, 0.99  # the probability of a guess: a certain one that is wrong would cost infinitely many bits

Game = dict[str, Any]

_ACTING = Lock()  # two acts at once in a game would both begin from the same state


def start(request: Request, studio: "Studio") -> dict[str, Any]:
    """Begin a game: `role`; `run`, whose policy is played with, or `uniform`. A guard plays with the scenario on the page."""
    role, run = text_of(request, "role"), text_of(request, "run", UNIFORM)
    if role not in _ROLES:
        raise Refused(400, f"role is {role[:40]!r}, expected {', '.join(_ROLES)}")
    if role == "guard":
        run = UNIFORM
    game: Game = {"format": _FORMAT, "id": secrets.token_hex(8), "role": role, "run": run}
    game |= {"seed": secrets.randbits(53), "round": 0, "acts": [], "rounds": []}
    if run == UNIFORM:
        base = None if studio.base is None else str(studio.base)
        game["scenario"] = {"text": studio.scenario, "name": studio.name, "base": base}
    subject = _subject(game, studio)
    if subject.problem.secret_table.path is not None:
        raise InputError("game", ["the secret is a whole path, which has no values to guess: play with another secret"])
    _save(studio, game)
    return _shown(game, subject, whole=True)


def show(request: Request, studio: "Studio") -> dict[str, Any]:
    """A game as it stands, with its picture, for a page that was loaded again."""
    game = _read(studio, text_of(request, "play"))
    return _shown(game, _subject(game, studio), whole=True)


def act(request: Request, studio: "Studio") -> dict[str, Any]:
    """One act: `next`, see the next observation; `guess` a value with a `probability`; `move` or `ask` by an action; `again`.

    `advise` changes nothing: the answer has what rules would ask.
    """
    with _ACTING:
        game = _read(studio, text_of(request, "play"))
        subject, what = _subject(game, studio), text_of(request, "act")
        if what == "again":
            _next_round(game)
        elif what in ("ask", "advise"):
            _expect(game, "guard")
            assert isinstance(subject, Post)
            if what == "ask":
                ask(game, subject, request.get("action"))
        elif what in ("next", "guess", "move"):
            _expect(game, "agent" if what == "move" else "observer")
            assert isinstance(subject, Subject)
            {"next": _see_next, "guess": _guess, "move": _move}[what](game, subject, request)
        else:
            raise Refused(400, f"act is {what[:40]!r}, expected next, guess, move, ask, advise or again")
        _save(studio, game)
    return _shown(game, subject, advised=what == "advise")


def _next_round(game: Game) -> None:
    if not _is_finished(game):
        raise InputError("game", ["the round is not over: guess, or walk to its end"])
    if len(game["rounds"]) >= _MOST_ROUNDS:
        raise InputError("game", [f"it has {_MOST_ROUNDS:,} rounds: start another one"])
    game["round"] += 1
    game["acts"] = []


def _is_finished(game: Game) -> bool:
    return len(game["rounds"]) > game["round"]


def _see_next(game: Game, subject: Subject, request: Request) -> None:
    if len(game["acts"]) >= subject.problem.horizon:
        raise InputError("game", ["all observations were seen: guess"])
    game["acts"].append(1)


def _guess(game: Game, subject: Subject, request: Request) -> None:
    values, run = subject.problem.secret_values, _hidden_run(game, subject)
    value, probability = request.get("value"), request.get("probability")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < len(values):
        raise InputError("guess", [f"the value is {value!r}, expected a number from 0 to {len(values) - 1}"])
    if not is_number(probability) or not _LEAST <= probability <= _MOST:
        raise InputError("guess", [f"the probability is {probability!r}, expected a number from {_LEAST} to {_MOST}"])
    yours = np.full(len(values), (1 - probability) / max(1, len(values) - 1))
    yours[value] = probability if len(values) > 1 else 1.0
    time = len(game["acts"])
    bayes, truth = run.posterior[time], run.secret
    assert truth is not None
    game["rounds"].append(
        {
            "time": time,
            "guess": value,
            "probability": probability,
            "truth": truth,
            "right": float(value == truth),
            "bits": _bits(yours, truth),
            "bayes_guess": int(bayes.argmax()),
            "bayes_posterior": bayes.tolist(),
            "bayes_right": float(guess_chances(bayes)[truth]),
            "bayes_bits": _bits(bayes, truth),
        }
    )


def _move(game: Game, subject: Subject, request: Request) -> None:
    action = request.get("action")
    walk = _walk(game, subject)
    walk.move(action if isinstance(action, int) and not isinstance(action, bool) else -1)
    game["acts"].append(action)
    if walk.is_over:
        assert walk.secret is not None
        bits = _bits(walk.posterior, walk.secret)
        chance = float(guess_chances(walk.posterior)[walk.secret])
        told = {"truth": walk.secret, "earned": walk.earned, "surprised": walk.surprised}
        game["rounds"].append(told | {"bayes_bits": bits, "bayes_right": chance})


def _expect(game: Game, role: str) -> None:
    if game["role"] != role:
        raise InputError("game", [f"the player is the {game['role']}, expected the {role}"])
    if _is_finished(game):
        raise InputError("game", ["the round is over: start the next one"])


def _bits(rule: np.ndarray, truth: int) -> float | None:
    """What a belief costs when the secret is told; None where it had ruled the truth out, at no finite cost."""
    found = float(code_lengths_bits(rule)[truth])
    return found if np.isfinite(found) else None


def _shown(game: Game, subject: Subject | Post, *, whole: bool = False, advised: bool = False) -> dict[str, Any]:
    """What the page may know of a game; `whole`: with what does not change in it."""
    problem = subject.problem
    document = {key: game[key] for key in ("role", "run", "round")}
    document |= {"play": game["id"], "horizon": problem.horizon, "over": _is_finished(game)}
    if isinstance(subject, Post):
        document |= {"score": guard_score(game, subject), **shown_to_guard(game, subject, advised=advised)}
    else:
        shown = _shown_to_observer if game["role"] == "observer" else _shown_to_agent
        document |= {"score": _score(game, subject), **shown(game, subject)}
    if whole:
        document |= {
            "facts": subject.facts(),
            "values": list(problem.secret_values),
            "data": scene_data(subject.scene),
            "spots": len(subject.scene.shown),
            **({"queries": subject.queries()} if isinstance(subject, Post) else {"actions": _actions(subject)}),
        }
    return document


def _actions(subject: Subject) -> list[dict[str, Any]]:
    names, directions = subject.problem.model.actions.all(), subject.scene.directions
    return [{"name": name, "direction": way} for name, way in zip(names, directions, strict=True)]


def _shown_to_observer(game: Game, subject: Subject) -> dict[str, Any]:
    run, time = _hidden_run(game, subject), len(game["acts"])
    document: dict[str, Any] = {"time": time, "seen": [event_text(one) for one in run.observations[: time + 1]]}
    if _is_finished(game):
        document |= {"result": game["rounds"][-1], "revealed": run_data(subject.scene, [run])}
    return document


def _shown_to_agent(game: Game, subject: Subject) -> dict[str, Any]:
    walk = _walk(game, subject)
    document = {
        "time": walk.time,
        "seen": [event_text(one) for one in walk.events],
        "state": subject.problem.model.states[walk.state],
        "at": int(subject.scene.spots[walk.state]),
        "available": walk.actions,
        "posterior": walk.posterior.tolist(),
        "belief": _heat(subject.scene, walk.belief),
        "earned": walk.earned,
        "surprised": walk.surprised,
    }
    return document | ({"result": game["rounds"][-1]} if _is_finished(game) else {})


def _heat(scene: Scene, belief: np.ndarray | None) -> list[list[float]]:
    """The spots with a probability that can be seen, and these."""
    if belief is None:
        return []
    shown = scene.total(belief)
    spots = np.flatnonzero(shown > 1e-9)
    return [[int(spot), float(shown[spot])] for spot in spots]


def _score(game: Game, subject: Subject) -> dict[str, Any]:
    """The means over the rounds, and what is known of the best observer: exact values, and bounds that are proven."""
    rounds, found = game["rounds"], subject.answer.solution
    keys = ("right", "bits", "earned", "bayes_right", "bayes_bits")
    finite = {key: [one[key] for one in rounds if one.get(key) is not None] for key in keys}
    means = {key: float(np.mean(values)) for key, values in finite.items() if values}
    proven = None if subject.claim is None else subject.claim.lower
    count = len(subject.problem.secret_values)
    return {
        "rounds": len(rounds),
        **means,
        "best_right": subject.best_guess if game["role"] == "observer" else None,
        "best_bits": found.opacity.bits,
        "method": found.opacity.method,
        "proven_bits": proven,
        "proven_right": None if proven is None else 1 - fano_error(proven, count),
        "expected_return": found.expected_return,
        "threshold": found.threshold,
    }


def _hidden_run(game: Game, subject: Subject) -> ObservedRun:
    return _drawn_run(subject, game["seed"], game["round"])


@lru_cache(maxsize=16)
def _drawn_run(subject: Subject, seed: int, number: int) -> ObservedRun:
    return sample_run(subject.behaviour, (seed, number))


def _walk(game: Game, subject: Subject) -> Walk:
    policy = subject.answer.solution.policy
    walk = Walk(subject.problem, policy, np.random.default_rng((game["seed"], game["round"])))
    for action in game["acts"]:
        walk.move(action)
    return walk


def _subject(game: Game, studio: "Studio") -> Subject | Post:
    given = game.get("scenario")
    if given is None:
        return subject_of(studio, game["run"])
    make = post_of if game["role"] == "guard" else subject_of_text
    return make(given["text"], given["name"], None if given["base"] is None else Path(given["base"]))


def _save(studio: "Studio", game: Game) -> None:
    folder = studio.folder / _FOLDER
    folder.mkdir(exist_ok=True)
    write_whole(folder / f"{game['id']}.json", json_text(game).encode(), marker=_FORMAT.encode())
    old = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)[:-_MOST_GAMES]
    for path in old:
        path.unlink(missing_ok=True)


def _read(studio: "Studio", play: str) -> Game:
    try:
        found = parse_json((studio.folder / _FOLDER / f"{play}.json").read_bytes()) if play.isalnum() else None
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise Refused(404, "there is no such game: start another one")
    return found
