"""What the page draws, as one JSON document: the scene, the policy, frames over time, curves and sampled runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..common.rounding import upper_text
from .answer import Answer
from .areas import Area, outline, value_colours
from .behaviour import Behaviour
from .curve import Curve
from .draw import has_signs
from .leaking import Leaking
from .observing import ObservedRun, event_text
from .packing import pack_bytes, pack_frames, pack_shares
from .scene import Range, Scene
from .style import NAMES, colours

_MOST_OCCUPANCY, _MOST_BELIEF, _MOST_POLICY = 250_000, 250_000, 600_000
_MOST_FRAMES, _MOST_POINTS, _MOST_LINES, _MOST_STEPS = 121, 800, 7, 600
_LEAST_MOVE = 0.005
_MOST_MODELS = 12  # that a reader can choose from; of more, the average is shown
_MOST_NAMED = 2500  # as many cells as the page draws one by one


@dataclass(frozen=True, eq=False)
class Material:
    """All that the figures show. `curve`: a frontier; `leaking`: over time and by sensor."""

    scene: Scene
    behaviour: Behaviour
    answer: Answer
    runs: list[ObservedRun]
    curve: Curve
    leaking: Leaking


def page_data(material: Material) -> dict[str, object]:
    """The document, with plain lists and numbers only."""
    return figure_data(material.scene, material.behaviour, material.runs) | {
        "leaking": _leaking(material.leaking),
        "convergence": _convergence(material.answer),
        "frontier": _frontier(material),
    }


def figure_data(scene: Scene, behaviour: Behaviour, runs: Sequence[ObservedRun]) -> dict[str, object]:
    """The part of the document about a policy alone: where it acts how, where it is, and what the observer believes in runs."""
    return scene_data(scene) | {
        "policy": _policy(scene, behaviour),
        "occupancy": _occupancy(scene, behaviour),
        "runs": run_data(scene, runs),
    }


def scene_data(scene: Scene) -> dict[str, object]:
    """The part of the document about a problem alone, which draws its picture."""
    problem = scene.problem
    silent = problem.observer.silent
    return {
        "horizon": problem.horizon,
        "split": problem.secret_table.time,
        "path": problem.secret_table.path is not None,
        "silent": None if silent is None else problem.observer.observations[silent],
        "scene": _scene(scene),
    }


def tints(names: Sequence[str]) -> list[str]:
    """The page's variables for the colours of sensors or values with these names."""
    return [NAMES[colour] for colour in colours(list(names))]


def _scene(scene: Scene) -> dict[str, object]:
    width, height = scene.size
    given = tints([one.name for one in scene.ranges])

    def at(states: np.ndarray) -> list[int]:
        return scene.at(states).tolist()

    return {
        "grid": scene.is_grid,
        "width": round(width, 3),
        "height": round(height, 3),
        "names": _labels(scene) if len(scene.shown) <= _MOST_NAMED else [],
        "states": scene.problem.num_states,
        "places": pack_bytes(scene.places.astype("<f4")),
        "walls": [cell for wall in scene.walls for cell in wall],
        "ranges": [
            {"name": one.name, "rate": round(one.rate, 4), "colour": tint} | _strengths(scene, one)
            for one, tint in zip(scene.ranges, given, strict=True)
        ],
        "starts": at(np.flatnonzero(scene.starts)),
        "traps": at(np.flatnonzero(scene.traps)),
        "closed": scene.closed.tolist(),
        "areas": [_area(scene, area) for area in scene.areas],
        "edges": np.unique(np.sort(scene.edges, axis=1), axis=0).ravel().tolist(),
    }


def _labels(scene: Scene) -> list[str]:
    """The names of the spots, with their places in metres where the grid has a frame."""
    layout, cells = scene.problem.layout, scene.cells
    if layout is None or layout.frame is None or cells is None:
        return scene.names
    top, left = cells.corner
    points = [layout.frame.to_metres(y + top, x + left, layout.rows) for x, y in scene.places.tolist()]
    return [f"{name} ({x:.4g} m, {y:.4g} m)" for name, (x, y) in zip(scene.names, points, strict=True)]


def _strengths(scene: Scene, one: Range) -> dict[str, object]:
    """The spots of a range, and of each the share of the largest rate in percent; one number where they are all alike."""
    shares = scene.strengths(one)
    spots = sorted(shares)
    percents = [round(100 * shares[spot]) for spot in spots]
    return {"at": spots, "shares": percents if len(set(percents)) > 1 else percents[:1]}


def _area(scene: Scene, area: Area) -> dict[str, object]:
    spots = scene.at(np.flatnonzero(area.states))
    lines = outline(np.floor(scene.places[spots][:, ::-1]).astype(int)) if scene.is_grid else np.zeros((0, 2, 2))
    return {
        "name": area.name,
        "role": area.role,
        "sign": area.sign if has_signs(scene, area) else "",
        "colour": NAMES[area.colour],
        "at": spots.tolist(),
        "lines": np.round(lines, 2).ravel().tolist() if not has_signs(scene, area) else [],
    }


def _policy(scene: Scene, behaviour: Behaviour) -> dict[str, object]:
    problem = behaviour.problem
    document: dict[str, object] = {"actions": list(problem.model.actions.all()), "directions": scene.directions}
    size = len(scene.shown) * problem.num_actions
    timed = behaviour.timed and 0 < problem.horizon * size <= _MOST_POLICY
    laws = [behaviour.actions(time) for time in range(problem.horizon)] if timed else [behaviour.actions()]
    seen = behaviour.occupancy[: problem.horizon] if timed else behaviour.visits[None]
    document["laws"] = [pack_shares(scene.mean(law, row)) for law, row in zip(laws, seen, strict=True)]
    document["visited"] = [pack_bytes((scene.total(row) > 1e-12).astype("u1")) for row in seen]
    document["timed"] = timed
    document["averaged"] = behaviour.timed and not timed
    if not scene.is_grid:
        times = range(problem.horizon) if timed else [None]
        document["moves"] = [_moves(behaviour.moves(time)[scene.shown][:, scene.shown]) for time in times]
    return document


def _moves(matrix: sp.csr_array) -> list[list[float]]:
    entries = matrix.tocoo()
    kept = np.flatnonzero(entries.data >= _LEAST_MOVE).tolist()
    return [[int(entries.row[e]), int(entries.col[e]), round(float(entries.data[e]), 4)] for e in kept]


def _occupancy(scene: Scene, behaviour: Behaviour) -> dict[str, object]:
    times = _times(behaviour.problem.horizon, _MOST_FRAMES)
    shown = scene.total(behaviour.occupancy[times])
    document: dict[str, object] = {"times": times, "frames": pack_frames(shown, _MOST_OCCUPANCY), "models": []}
    models = behaviour.problem.models
    if 1 < len(models) <= _MOST_MODELS:
        values, most = behaviour.problem.secret_values, _MOST_OCCUPANCY // len(models)
        names = values if len(values) == len(models) else [f"model {number}" for number in range(len(models))]
        each = [scene.total(behaviour.occupancy_in(number)[times]) for number in range(len(models))]
        document["models"] = [
            {"name": name, "frames": pack_frames(frames, most)} for name, frames in zip(names, each, strict=True)
        ]
    return document


def _times(last: int, most: int) -> list[int]:
    """All times, or as many as there is room for, evenly."""
    if last < most:
        return list(range(last + 1))
    return sorted({round(i * last / (most - 1)) for i in range(most)})


def run_data(scene: Scene, runs: Sequence[ObservedRun]) -> list[dict[str, object]]:
    """Runs with what the observer believes in each."""
    problem = scene.problem
    most = _MOST_BELIEF // max(1, len(runs))
    times = _times(problem.horizon, _MOST_STEPS)
    found = []
    for run in runs:
        assert run.states is not None
        found.append(
            {
                "title": run.title,
                "secret": None if run.secret is None else problem.secret_values[run.secret],
                "times": times,
                "seen": [event_text(run.observations[time]) for time in times],
                "states": [problem.model.states[int(run.states[time])] for time in times],
                "at": scene.spots[run.states[times]].tolist(),
                "lines": _lines(scene, problem.secret_values if not run.path else ("true state",), run, times),
                "belief": pack_frames(scene.total(run.belief[times]), most),
            }
        )
    return found


def _lines(scene: Scene, values: tuple[str, ...], run: ObservedRun, times: list[int]) -> list[dict[str, object]]:
    """The posterior of each value; of many, the true one and those that the observer thought likeliest."""
    weight = run.posterior.sum(axis=0)
    if run.secret is not None:
        weight[run.secret] = np.inf
    chosen = np.sort(np.lexsort((np.arange(len(values)), -weight))[:_MOST_LINES])
    given = [NAMES[colour] for colour in value_colours(scene.areas, [values[int(value)] for value in chosen])]
    return [
        {
            "name": values[int(value)],
            "true": int(value) == run.secret,
            "colour": tint,
            "y": np.round(run.posterior[times, int(value)], 5).tolist(),
        }
        for value, tint in zip(chosen, given, strict=True)
    ]


def _leaking(leaking: Leaking) -> dict[str, object]:
    chosen = np.array(_times(len(leaking.over_time) - 1, _MOST_POINTS), dtype=int)[: len(leaking.over_time)]
    return {
        "times": chosen.tolist(),
        "bits": _rounded(leaking.over_time[chosen]),
        "errors": _rounded(leaking.errors[chosen]) if leaking.drawn else [],
        "source": leaking.source,
        "sources": [[name, round(bits, 6)] for name, bits in leaking.sources.items()],
    }


def _convergence(answer: Answer) -> dict[str, object]:
    history = answer.solution.history
    chosen = np.array(_times(len(history) - 1, _MOST_POINTS), dtype=int) if len(history) else np.zeros(0, dtype=int)
    return _demands(answer) | {
        "iteration": history.iteration[chosen].tolist(),
        "bits": _rounded(history.opacity_bits[chosen]),
        "returns": _rounded(history.expected_return[chosen]),
    }


def _frontier(material: Material) -> dict[str, object]:
    found = material.answer.solution
    return _demands(material.answer) | {
        "points": [[round(earned, 6), round(bits, 6)] for earned, bits in material.curve.points],
        "bounds": _bounds(material),
        "chosen": _rounded(np.array([found.expected_return, found.opacity.bits])),
    }


def _bounds(material: Material) -> list[list[float | None]]:
    """The proven bounds of the curve and that of the answer, by threshold; none where only the answer has one."""
    bounds, answer = list(material.curve.bounds), material.answer
    if not any(np.isfinite(upper) for _, upper in bounds):
        return []
    if answer.claim is not None and answer.solution.goal == "opaque" and answer.solution.threshold is not None:
        bounds.append((answer.solution.threshold, answer.claim.upper))
    table = np.array(sorted(bounds))
    table[:, 1] = np.minimum.accumulate(table[:, 1])  # who meets a stricter threshold meets a freer one
    return [_rounded(bound) for bound in table]


def _demands(answer: Answer) -> dict[str, object]:
    """The required return and the proven upper bound over all policies, as a number and as text, rounded up."""
    claim = answer.claim if answer.solution.goal == "opaque" else None
    return {
        "threshold": answer.solution.threshold,
        "upper": None if claim is None else round(claim.upper, 6),
        "upper_text": "" if claim is None else upper_text(claim.upper),
    }


def _rounded(values: np.ndarray) -> list[float | None]:
    return [round(float(value), 6) if np.isfinite(value) else None for value in values]
