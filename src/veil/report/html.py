"""The report: one HTML file with everything in it, which opens from disk, prints, and asks nothing of a network."""

import html
import json
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..common.errors import InputError
from ..common.files import write_whole
from ..planning.frontier import Frontier
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from .answer import Answer, bits_text, make_answer, question, upper_text, verdict
from .behaviour import behave
from .curve import read_curve
from .page_data import Material, page_data
from .scene import make_scene
from .style import number_text, shortened
from .watching import Revealing, event_text, most_revealing, sample_runs

_SCRIPTS = ("draw.js", "charts.js", "page.js")
_MOST_GROUPS = 30
_MOST_BELIEF = 50_000_000  # numbers: of a very large problem fewer runs are shown
_NO_CURVE = (
    "The curve of the best for each return was not computed: veil report RESULT --points 10 does, or veil frontier"
    " SCENARIO -o FILE.json and then veil report RESULT --frontier FILE.json."
)


def write_report(
    path: str | Path,
    problem: Problem,
    answer: Any,
    *,
    certificate: Any = None,
    frontier: Frontier | str | Path | None = None,
    runs: int = 6,
    sequences: int = 12,
    seed: int = 0,
) -> None:
    """Write the report on an answer, complete or not at all; the same inputs give the same bytes.

    **Arguments:**

    - `path`: of the HTML file.
    - `answer`: a `Solution`, or the `Result` that `read_result` finds in a folder.
    - `certificate`: of the policy, where the answer brings none.
    - `frontier`: what `veil.frontier` returns, or a file that `veil frontier -o` wrote; None leaves the curve out.
    - `runs`: how many sampled runs to show, 2 or more: the first that were drawn, and of four hundred that which gives
      the secret away most and that which misleads most. `sequences`: how many of the most revealing observation sequences.
    - `seed`: of the sampled runs.

    **Raises:** `InputError` where the file cannot be written, or the parts do not belong together.
    """
    text = make_report(
        problem, answer, certificate=certificate, frontier=frontier, runs=runs, sequences=sequences, seed=seed
    )
    try:
        write_whole(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(str(path), [f"the report cannot be written there: {error.strerror or error}"]) from None


def make_report(
    problem: Problem,
    answer: Any,
    *,
    certificate: Any = None,
    frontier: Frontier | str | Path | None = None,
    runs: int = 6,
    sequences: int = 12,
    seed: int = 0,
) -> str:
    """The text of the report; arguments as for `write_report`."""
    found = make_answer(problem, answer, certificate)
    behaviour = behave(problem, found.solution.policy)
    room = _MOST_BELIEF // ((problem.horizon + 1) * problem.num_states)
    sample = sample_runs(behaviour, max(2, min(runs, room)), seed)
    revealing = most_revealing(behaviour, sample, sequences)
    curve, curve_note = read_curve(problem, frontier) if frontier is not None else ([], _NO_CURVE)
    scene = make_scene(problem, behaviour.visits)
    material = Material(scene, behaviour, found, sample.runs, curve, curve_note)
    data, page = page_data(material), files("veil.report") / "page"
    parts = {
        "title": _safe(f"{problem.name}: report"),
        "name": _safe(problem.name),
        "question": _safe(f"What the observer wants to know: {question(problem)}"),
        "verdict": _safe(verdict(problem, found)),
        "tiles": _tiles(found, revealing),
        **_captions(material, data, len(sample.events)),
        "revealing_note": _safe(revealing.how),
        "revealing": _revealing_table(problem, revealing),
        "watcher_note": _safe(_watcher_note(problem)),
        "observer": _watcher_table(material),
        "certificate": _certificate(found),
        "settings": _settings(problem, found, seed),
        "css": page.joinpath("page.css").read_text("utf-8"),
        "data": _script_safe(data),
        "script": "(function () {\n'use strict';\n"
        + "\n".join(page.joinpath(name).read_text("utf-8") for name in _SCRIPTS)
        + "})();",
    }
    return _filled(page.joinpath("template.html").read_text("utf-8"), parts)


def _filled(template: str, parts: dict[str, str]) -> str:
    """The template with each `{name}` replaced once; what is put in is not looked at again."""
    text, rest = [], template
    for name in sorted(parts, key=lambda name: template.index("{" + name + "}", 0)):
        for _ in range(template.count("{" + name + "}")):
            before, rest = rest.split("{" + name + "}", 1)
            text += [before, parts[name]]
    return "".join([*text, rest])


def _safe(text: Any) -> str:
    return html.escape(str(text))


def _script_safe(document: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever names are in it."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _tiles(answer: Answer, revealing: Revealing) -> str:
    found = answer.solution
    opacity = found.opacity
    asked = "no threshold" if found.threshold is None else f"asked for: {number_text(found.threshold)}"
    about = "" if revealing.exact else "about "
    tiles = [
        ("Hidden", f"{bits_text(opacity.bits)} bits", f"of {bits_text(opacity.prior_bits)}, {opacity.method}"),
        ("Leaked", f"{bits_text(opacity.leakage_bits)} bits", "what the observer learns"),
        ("A right guess", f"{about}{revealing.guess:.1%}", f"{revealing.prior_guess:.1%} before watching"),
        ("Expected return", number_text(found.expected_return), asked),
    ]
    if answer.claim is not None:
        what = "no policy can keep more" if found.goal == "opaque" else "it hides no more"
        tiles.append(("Proven", f"≤ {upper_text(answer.claim.upper)} bits", what))
    return "\n".join(f"<div><dt>{_safe(a)}</dt><dd>{_safe(b)}<small>{_safe(c)}</small></dd></div>" for a, b, c in tiles)


def _captions(material: Material, data: dict[str, Any], drawn: int) -> dict[str, str]:
    scene, behaviour, answer = material.scene, material.behaviour, material.answer
    size = len(scene.shown)
    part = (
        "" if size == scene.problem.num_states else f" Of {scene.problem.num_states:,} states the {size} most visited."
    )
    arrows = (
        "Arrows show where the policy goes and how likely, a dot that it stays."
        if scene.is_grid
        else "Arrows show the moves that the policy makes, faint lines those that are possible."
    )
    averaged = ""
    if data["policy"]["timed"]:
        averaged = " The slider goes through the decisions; whatever else the policy remembers is averaged over."
    elif behaviour.timed:
        averaged = " What depends on time or memory is averaged over the run."
    search = answer.solution
    return {
        "policy_caption": _safe(f"{arrows}{averaged}{part} The policy: {search.policy_class}."),
        "occupancy_caption": _safe(f"The probability of being in each state at each time.{part}"),
        "belief_caption": _safe(
            f"Sampled runs; the last two are those, of {drawn:,} drawn, in which the observer ended surest of the truth and"
            f" surest of something else. Colour: where the observer thinks the agent is, given all it has seen.{part}"
        ),
        "convergence_caption": _safe(
            f"{search.method}: {search.iterations:,} iterations in {search.seconds:.1f} s; {search.status.value}."
        ),
        "frontier_caption": _safe(material.curve_note),
    }


def _table(headings: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table of cells that are safe already; each heading says whether its column holds numbers."""
    classes = [' class="number"' if is_number else "" for _, is_number in headings]
    head = "".join(f"<th{c}>{_safe(name)}</th>" for (name, _), c in zip(headings, classes, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{c}>{cell}</td>" for cell, c in zip(row, classes, strict=True)) + "</tr>\n"
        for row in rows
    )
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _revealing_table(problem: Problem, revealing: Revealing) -> str:
    silent = None if problem.observer.silent is None else problem.observer.observations[problem.observer.silent]
    rows = []
    for one in revealing.sequences:
        likeliest = sorted(one.posterior.items(), key=lambda pair: -pair[1])[:4]
        believed = "".join(
            f"<div><bdi>{_safe(shortened(name, 40))}</bdi> <span>{chance:.1%}</span></div>"
            for name, chance in likeliest
        )
        rows.append(
            [
                _sequence(one.observations, silent),
                f"{one.probability:.3g}",
                f'<div class="posterior">{believed}</div>',
                f"{one.gain_bits:.4f}",
                f"{one.leaked_bits:.2g}",
            ]
        )
    share = "share of the leak, bits"
    named = [("what is seen, in order", False), ("probability", True), ("what is believed then", False),
             ("it tells, bits", True), (share, True)]  # fmt: skip
    return _table(named, rows, ' class="listing" id="sequences"')


def _sequence(events: Sequence[Any], silent: str | None) -> str:
    """A sequence with repeats counted, the middle of a long one left out."""
    groups: list[list[Any]] = []
    for event in events:
        if groups and groups[-1][0] == event:
            groups[-1][1] += 1
        else:
            groups.append([event, 1])
    shown = groups
    if len(groups) > _MOST_GROUPS:
        half = _MOST_GROUPS // 2
        shown = [*groups[:half], [None, len(groups) - _MOST_GROUPS], *groups[-half:]]
    cells = []
    for event, count in shown:
        if event is None:
            cells.append(f'<span class="silent">… {count} more …</span>')
            continue
        text = _safe(shortened(event_text(event), 40)) + (f" ×{count}" if count > 1 else "")
        quiet = ' class="silent"' if event == silent else ""
        cells.append(f"<span{quiet}><bdi>{text}</bdi></span>")
    return f'<div class="seen">{"".join(cells)}</div>'


def _watcher_note(problem: Problem) -> str:
    observer = problem.observer
    seen = "It sees each action and" if observer.sees_actions else "It does not see the actions; it receives"
    begin = "from time 0 on" if observer.sees_first else "from time 1 on"
    how = "each depends on the action and the state it led to" if observer.on_actions else "each depends on the state"
    agent = "The agent sees it too." if problem.agent_sees_observations else "The agent does not see what it receives."
    return f"{seen} one of {observer.num_observations:,} observations a step, {begin}; {how}. {agent}"


def _watcher_table(material: Material) -> str:
    states = material.behaviour.problem.model.states
    rows = []
    for one in material.scene.ranges:
        some = ", ".join(f"<bdi>{_safe(shortened(states[int(s)], 24))}</bdi>" for s in one.states[:8])
        more = f" and {len(one.states) - 8:,} more" if len(one.states) > 8 else ""
        name = f"<bdi>{_safe(shortened(one.name, 40))}</bdi>"
        rows.append([name, f"{one.rate:.4g}", f"{one.elsewhere:.4g}", f"{len(one.states):,}", some + more])
    if not rows:
        return ""
    named = [("sensor", False), ("reports there", True), ("elsewhere, at least", True), ("states", True),
             ("where", False)]  # fmt: skip
    return _table(named, rows, ' class="listing"')


def _certificate(answer: Answer) -> str:
    if answer.claim is None:
        why = answer.note or "none was made"
        return f'<div class="claim none"><p>There is no certificate: {_safe(why)}.</p></div>'
    text = answer.claim.summary
    text = f"The policy {text}" if text.startswith("hides") else text
    lines = "".join(f"<p>{_safe(line)}</p>" for line in text.splitlines())
    told = (
        "The proof lies beside the result and is checked by <code>veil verify RESULT</code>, which shares no code with"
        " what made it."
    )
    return f'<div class="claim">{lines}</div><p class="note">{told}</p>'


def _settings(problem: Problem, answer: Answer, seed: int) -> str:
    found, model = answer.solution, problem.model
    facts: list[tuple[str, Any]] = [
        ("problem", problem.name),
        ("fingerprint", fingerprint(problem)),
        ("states, actions", f"{problem.num_states:,}, {problem.num_actions:,}"),
        ("transitions", f"{model.num_transitions:,}"),
        ("observations", f"{problem.observer.num_observations:,}"),
        ("horizon", f"{problem.horizon:,} decisions"),
        ("secret", f"{type(problem.secret).__name__}, {len(problem.secret_values):,} values"),
        ("return", f"over {problem.return_over}, discount {number_text(problem.discount, 6)}"),
        ("threshold", "none" if found.threshold is None else number_text(found.threshold, 6)),
        ("policy", found.policy_class),
        ("method", f"{found.method}, goal {found.goal}, objective {found.objective}"),
        ("opacity", f"{found.opacity.method}: {found.opacity.reason}".rstrip(": ")),
        ("outcome", f"{found.status.value}{'; ' + found.detail if found.detail else ''}"),
        ("price of return", f"{number_text(found.price_bits)} bits a unit"),
        ("iterations, seconds", f"{found.iterations:,}, {found.seconds:.2f}"),
        ("seed of the search, of the runs", f"{found.seed}, {seed}"),
        *((f"setting {name}", value) for name, value in sorted(found.settings.items())),
    ]
    if answer.version is not None:
        facts.append(("solved with veil", answer.version))
    facts.append(("reported with", f"veil {version('veil')}, Python {platform.python_version()}, "
                  f"NumPy {version('numpy')}, SciPy {version('scipy')}"))  # fmt: skip
    rows = "".join(
        f'<tr><th scope="row">{_safe(name)}</th><td><bdi>{_safe(shortened(str(value), 400))}</bdi></td></tr>\n'
        for name, value in facts
    )
    return f'<table class="facts"><tbody>\n{rows}</tbody></table>'
