"""`veil compare`: one table of policy classes."""

from typing import Annotated, Any

import typer

from ..common.settings import settings
from ..tradeoffs.options import CompareOptions
from .options import Further, with_options
from .progress import QuietOption, reported
from .shared import INTERRUPTED, SOLVED, JsonOption, ScenarioArgument, open_scenario, print_json, print_table, stop
from .solve import doubted, endings_keep_the_best


@with_options(CompareOptions)
def compare(
    scenario: ScenarioArgument,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Policy classes, separated by commas: markov, timed, history, states:K, observations:K, controller:N,"
            " mixture:K.",
            show_default="markov,timed,states:1,history",
        ),
    ] = None,
    *,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    changes: tuple[str, ...] = (),
    **options: Any,
) -> None:
    """Compare policy classes: bits and return of the best policy of each, and the proven bound over all policies.

    Of the scenario's table [solve] it uses seed, time_limit and certificate.

    Exit codes: 0 a table, 2 bad input, 3 infeasible, 8 policies may be far from the best of their class, 130 interrupted (the
    classes so far are shown).

    Example: veil compare patrol.toml --classes markov,timed --time-limit 60
    """
    from .. import compare as table

    more = Further("compare", changes, table)
    opened = open_scenario(scenario, more.changes)
    known = settings(CompareOptions)
    chosen = {name: value for name, value in opened.settings.items() if name in known}
    chosen |= more.of(table) | {name: value for name, value in options.items() if value is not None}
    if classes is not None:
        from ..policy.memories.words import memory_of

        chosen["memories"] = tuple(memory_of(name.strip()) for name in classes.split(","))
    with reported(quiet=quiet) as progress, endings_keep_the_best():
        found = table(opened.problem, **chosen, progress=progress)
    if as_json:
        print_json(_document(found))
    else:
        rows = [[one.policy_class, one.opacity.bits, one.expected_return, round(one.seconds, 1), one.ending]
                for one in found.rows]  # fmt: skip
        print_table(["class", "bits", "return", "seconds", "status"], rows)
        print("\n".join(found.notes))
    code = INTERRUPTED if any(row.status.name == "INTERRUPTED" for row in found.rows) else SOLVED
    stop(doubted(code, [doubt for row in found.rows for doubt in row.doubts]))


def _document(found: Any) -> dict[str, object]:
    names = ("policy_class", "expected_return", "feasible", "seconds", "from_smaller_class", "doubts")
    rows = [
        {name: getattr(row, name) for name in names}
        | {"opacity_bits": row.opacity.bits, "std_error": row.opacity.std_error, "status": row.status.name}
        for row in found.rows
    ]
    return {
        "format": "veil-comparison-1",
        "classes": rows,
        "upper_bits": found.upper_bits,
        "trivial": found.trivial,
        "threshold": found.threshold,
        "failed": [{"policy_class": name, "reason": reason} for name, reason in found.failed],
        "seconds": found.seconds,
    }
