"""The report: one HTML file with everything in it, which opens from disk, prints, and requests nothing from a network."""

import math
import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..common.clock import Clock
from ..common.errors import TooLargeError
from ..common.files import file_errors, write_whole
from ..common.rounding import lower_text, upper_text
from ..formats.results.folder import Result
from ..measure.attack import attack
from ..measure.attack_result import Attack
from ..measure.given_secret import shown_return_given_secret
from ..measure.measures import Event
from ..planning.solution import Solution
from ..policy.policy import Policy
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from ..proof.certificate import Certificate
from ..tradeoffs.frontier import Frontier
from .answer import Answer, Claim, bits_text, make_answer, verdict
from .assets import asset, page_script
from .behaviour import behave
from .curve import Curve, read_curve
from .leaking import find_leaking, recommendations
from .observing import event_text, most_revealing, sample_runs
from .page_data import Material, page_data
from .scene import make_scene
from .smoothing import smooth_runs
from .style import number_text, shortened

MARKER = b'<meta name="generator" content="veil">'
_MOST_GROUPS = 30  # of equal observations in a row: more do not fit in a cell of the table
_EPISODES = 2000  # simulated attacks on a policy that was only measured: a share is known within 2%
_MOST_BELIEF = 50_000_000  # probabilities of all runs shown, 400 MB: of a very large problem fewer runs are shown


def write_report(
    path: str | Path,
    problem: Problem,
    answer: Solution | Result | Answer,
    *,
    certificate: Certificate | Claim | None = None,
    frontier: Frontier | str | Path | None = None,
    runs: int = 6,
    sequences: int = 12,
    seed: int = 0,
    time_limit: float | None = None,
) -> None:
    """Write the report on an answer, complete or not at all; the same inputs give the same bytes.

    **Arguments:**

    - `path`: of the HTML file.
    - `answer`: a `Solution`, or the `Result` that `read_result` finds in a folder.
    - `certificate`: of the policy, where the answer has none.
    - `frontier`: the result of `veil.frontier`, or a file that `veil frontier -o` wrote; None leaves the curve out.
    - `runs`: how many sampled runs to show, 2 or more; two of them are the most revealing and the most misleading one of
      the runs that were drawn. `sequences`: how many of the most revealing observation sequences to list.
    - `seed`: of the sampled runs.
    - `time_limit`: seconds; what does not fit, such as exact leakage over time, is estimated or left out.

    **Raises:** `InputError` where the file cannot be written, or the parts do not belong together.
    """
    text = make_report(
        problem,
        answer,
        certificate=certificate,
        frontier=frontier,
        runs=runs,
        sequences=sequences,
        seed=seed,
        time_limit=time_limit,
    )
    with file_errors(path, "the report cannot be written there"):
        write_whole(path, text.encode("utf-8", "replace"), marker=MARKER)


def make_report(
    problem: Problem,
    answer: Solution | Result | Answer,
    *,
    certificate: Certificate | Claim | None = None,
    frontier: Frontier | str | Path | None = None,
    runs: int = 6,
    sequences: int = 12,
    seed: int = 0,
    time_limit: float | None = None,
) -> str:
    """The text of the report; arguments as for `write_report`."""
    clock = Clock(time_limit)
    found = make_answer(problem, answer, certificate)
    behaviour = behave(problem, found.solution.policy)
    room = _MOST_BELIEF // ((problem.horizon + 1) * problem.num_states)
    shown, paths = max(2, min(runs, room)), problem.secret_table.path is not None
    one_value = not paths and problem.secret_table.each is None
    if paths:
        (sample, leaking), revealing = smooth_runs(behaviour, shown, seed), None
    else:
        sample = sample_runs(behaviour, shown, seed)
        leaking = find_leaking(behaviour, sample, clock)
        revealing = most_revealing(behaviour, sample, sequences, clock) if one_value else None
    curve = Curve([]) if frontier is None else read_curve(problem, frontier)
    attacked = None if found.searched or not one_value else _attacked(problem, found.solution.policy, seed, clock)
    material = Material(make_scene(problem, behaviour.visits), behaviour, found, sample.runs, curve, leaking)
    return _pages().get_template("report.html.jinja").render(
        problem=problem,
        question=problem.secret.describe(problem),
        verdict=verdict(found),
        answer=found,
        found=found.solution,
        behaviour=behaviour,
        scene=material.scene,
        data=page_data(material),
        drawn=len(sample.events),
        revealing=revealing,
        leaking=leaking,
        advice=[] if revealing is None else recommendations(leaking, revealing.sequences, exact=revealing.exact),
        reconstructed=sample.runs if paths else [],
        attacked=attacked,
        curve=curve,
        facts=_facts(problem, found, seed),
    )  # fmt: skip


def _attacked(problem: Problem, policy: Policy, seed: int, clock: Clock) -> Attack | None:
    """Simulated attacks on a policy, if there is time for them."""
    if clock.left <= 0:
        return None
    try:
        return attack(problem, policy, _EPISODES, seed=seed, time_limit=None if clock.left == math.inf else clock.left)
    except TooLargeError:
        return None


@cache
def _pages() -> Environment:
    """Where templates are filled in: all that is put in is escaped, and a name that is not given is an error."""
    pages = Environment(
        loader=PackageLoader("veil.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.policies["json.dumps_kwargs"] = {"ensure_ascii": True, "allow_nan": False, "separators": (",", ":")}
    pages.filters |= {
        "bits": bits_text,
        "at_least": lower_text,
        "at_most": upper_text,
        "gap": _gap,
        "number": number_text,
        "thousands": "{:,}".format,
        "percent": "{:.1%}".format,
        "short": shortened,
        "event": event_text,
        "grouped": _grouped,
    }
    pages.globals |= {"style": Markup(asset("page.css")), "script": Markup(page_script())}
    return pages


def _gap(upper: float, bits: float) -> str:
    """A proven upper bound less what is hidden, as both are shown."""
    return bits_text(max(0.0, float(upper_text(upper)) - float(bits_text(bits))))


def _grouped(events: Sequence[Event]) -> list[tuple[Event | None, int]]:
    """A sequence as events with how often each is repeated; in place of the middle of a long one, None and its length."""
    groups: list[tuple[Event | None, int]] = [(event, len(list(same))) for event, same in groupby(events)]
    if len(groups) <= _MOST_GROUPS:
        return groups
    half = _MOST_GROUPS // 2
    return [*groups[:half], (None, len(groups) - _MOST_GROUPS), *groups[-half:]]


def _secret_text(problem: Problem) -> str:
    """The kind of secret, and how many values it has, or of a path how many states or groups it tells apart."""
    path = problem.secret_table.path
    count = (
        f"values: {len(problem.secret_values):,}"
        if path is None
        else f"over {len(set(path.tolist())):,} states or groups"
    )
    return f"{type(problem.secret).__name__}, {count}"


def _setting_text(value: object) -> str:
    """A setting for people: a number with six digits, a table as its entries."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_setting_text(one)}" for name, one in value.items())
    return number_text(value, 6) if isinstance(value, float) else str(value)


def _facts(problem: Problem, answer: Answer, seed: int) -> list[tuple[str, str]]:
    """Names and values of what is needed to reproduce the answer."""
    found, model = answer.solution, problem.model
    given = shown_return_given_secret(problem, found.policy)
    search = [
        ("policy class", found.policy_class),
        ("method, goal, objective", f"{found.method}, {found.goal}, {found.objective}"),
        ("outcome", f"{found.status.value}{'; ' + found.detail if found.detail else ''}"),
        ("price of return", f"{number_text(found.price_bits)} bits for one more unit, to first order"),
        ("iterations, seconds", f"{found.iterations:,}, {found.seconds:.2f}"),
    ]
    facts = [
        ("problem", problem.name),
        ("fingerprint", fingerprint(problem)),
        ("states, actions", f"{problem.num_states:,}, {problem.num_actions:,}"),
        ("transitions", f"{model.num_transitions:,}"),
        ("observations", f"{problem.observer.num_observations:,}"),
        ("decisions (horizon)", f"{problem.horizon:,}"),
        ("secret", _secret_text(problem)),
        ("return", f"over {problem.return_over}, discount {number_text(problem.discount, 6)}"),
        ("required return", "none" if found.threshold is None else f"at least {number_text(found.threshold, 6)}"),
        *([("return given the secret", given.text)] if given is not None and given.differs else []),
        *(one.fact() for one in found.constraints[found.threshold is not None :]),
        *(one.fact() for one in found.pairs),
        *([("task", f"{found.task}: {number_text(found.task_value, 6)}")] if found.task else []),
        ("evaluation of opacity", f"{found.opacity.method}: {found.opacity.reason}".rstrip(": ")),
        *(search if answer.searched else [("policy", found.policy_class)]),
        ("seeds of search and runs", f"{found.seed}, {seed}") if answer.searched else ("seed of runs", str(seed)),
        *((f"setting {name}", _setting_text(value)) for name, value in sorted(found.settings.items())),
    ]
    if answer.version is not None:
        facts.append(("solved with", f"veil {answer.version}"))
    packages = f"NumPy {version('numpy')}, SciPy {version('scipy')}"
    return [*facts, ("reported with", f"veil {version('veil')}, Python {platform.python_version()}, {packages}")]
