"""`veil measure`: what a policy hides and leaks, sequence by sequence where asked."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from ..planning.options import Evaluation
from .options import Further
from .progress import QuietOption, reported, working
from .shared import (
    GATE_MISSED,
    SOLVED,
    Document,
    JsonOption,
    MaxLeakageOption,
    MinOpacityOption,
    Opened,
    PairOption,
    SeedOption,
    TimeLimitOption,
    argument,
    check_output,
    complete_policy,
    complete_scenario,
    event_text,
    is_result,
    open_measured,
    open_policy,
    option,
    print_facts,
    print_json,
    print_table,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from ..measure.attack_result import Attack
    from ..measure.measures import Quantities
    from ..measure.result import Opacity
    from ..policy.policy import Policy
    from ..problem.observer import Observer
    from ..problem.problem import Problem
    from ..proof.certificate import Certificate

_MOST_GAIN_BYTES = 2**24
_MOST_LISTED = 2**24  # numbers of a joint table that is listed: 128 MiB
_SURE_SECONDS = 10.0  # for how often the observer becomes sure
_MOST_VALUES = 40  # of a secret, listed one a line
_TOP = 5  # worst sequences that are listed
By = Literal["leaked_bits", "gain_bits", "posterior"]


def measure(
    scenario: Annotated[
        str,
        argument(
            metavar="SCENARIO",
            help="A scenario file (.toml), gallery:NAME, a result folder, or a model file with an observer.",
            autocompletion=complete_scenario,
        ),
    ],
    policy: Annotated[
        str | None,
        typer.Argument(
            metavar="POLICY",
            help="A policy file, a result folder, or the word uniform.",
            show_default="uniform, or that of the result folder",
            autocompletion=complete_policy,
        ),
    ] = None,
    pair: PairOption = "own",
    method: Annotated[Evaluation, typer.Option(help="How to compute the opacity.")] = "auto",
    seed: SeedOption = 0,
    time_limit: TimeLimitOption = None,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Also print every quantity of leakage, uncertainty over time, leakage by sensor and the worst sequences.",
        ),
    ] = False,
    attacked: Annotated[
        bool, typer.Option("--attack", help="Also run the best attack on the secret against simulated runs.")
    ] = False,
    certificate: Annotated[
        Path | None,
        option(
            help="Also prove a lower bound on what the policy hides and an upper bound over all policies with the same"
            " threshold, and write the certificate to this file; its arrays go in a second file beside it."
        ),
    ] = None,
    proof_time_limit: Annotated[
        float, typer.Option("--proof-time-limit", min=0, help="Time limit of the proof in seconds.")
    ] = 60.0,
    min_opacity: MinOpacityOption = None,
    max_leakage: MaxLeakageOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Measure what a policy hides, what it leaks, and its return.

    A model file must declare an observer and a secret, such as a PRISM program with observable and secret variables, and
    needs a horizon: --set horizon=4. --set secret= gives an expression for the last states that are secret.

    --set measure.NAME=VALUE gives the options of veil.opacity and, with --details, of veil.measures.quantities, such as
    measure.width, sequences, workers, top and orders; besides them measure.by, the order of the worst sequences (leaked_bits,
    gain_bits or posterior), and measure.gain, a CSV file with a row of gains for each action of the observer. --set
    attack.NAME=VALUE gives those of veil.attack: episodes, bins, traces, and believes, the policy that the observer assumes.
    --set certify.gap=BITS ends the proof when its bounds are this close. `veil verify` checks the certificate.

    Exit codes: 0 measured, 2 bad input, 7 a limit of --min-opacity or --max-leakage is missed.

    Example: veil measure patrol.toml patrol-result --details

    Example: veil measure voting.pm --set horizon=4

    Example: veil measure patrol.toml uniform --certificate proof.json
    """
    from .. import attack as play
    from .. import expected_return, opacity
    from ..common.clock import Clock
    from ..engine.return_range import threshold
    from ..formats.results.document import encoded, problem_document
    from ..measure.gates import gates
    from ..measure.given_secret import shown_return_given_secret
    from ..measure.measures import quantities
    from ..measure.pairs import pair_values
    from ..proof.certificate_writing import MARKER
    from ..proof.certify import certify
    from ..proof.feasibility import proven_others, reaches_threshold

    check_output(certificate, MARKER.decode())
    more = Further("measure", changes, opacity, pair_values, quantities, listing)
    against = Further("attack", more.changes, play, assumed)
    proving = Further("certify", against.changes, certify)
    opened = open_measured(scenario, proving.changes)
    problem = opened.problem
    acting = open_policy(problem, policy or (scenario if is_result(scenario) else "uniform"))
    clock, first = Clock(time_limit), None if time_limit is None else time_limit / (1 + len(problem.pairs))
    asked: dict[str, Any] = {"method": method, "seed": seed}
    is_silent = quiet or as_json
    with working("measuring the policy", quiet=is_silent):
        hidden = opacity(problem, acting, **asked | {"pair": pair, "time_limit": first} | more.of(opacity))
        earned, others = expected_return(problem, acting), proven_others(problem, acting)
        asked["time_limit"] = clock.rest
        pairs = pair_values(problem, acting, **asked | more.of(pair_values))
        given = shown_return_given_secret(problem, acting, pair)
    limits = gates(hidden, min_opacity, max_leakage)
    document: Document = {
        "problem": problem_document(problem, opened.source, proving.changes),
        "policy": acting.describe(),
        "pair": pair,
        "opacity": encoded(hidden),
        "expected_return": earned,
        "return_given_secret": None if given is None else given.document(),
        "threshold": threshold(problem),
        "feasible": reaches_threshold(problem, acting, earned) and all(one.met for one in (*others, *pairs)),
    }
    if others:
        document["constraints"] = [encoded(one) for one in others]
    if pairs:
        document["pairs"] = [encoded(one) for one in pairs]
    facts = [one.fact() for one in (*others, *pairs)]
    print_parts = [
        lambda: _show_measured(document, hidden, facts, given.fact() if given is not None and given.differs else None)
    ]
    own: dict[str, Any] = {"seed": seed, "pair": pair, "time_limit": time_limit}
    if details:
        with working("computing every quantity of leakage", quiet=is_silent):
            document["details"], show = _detailed(problem, acting, own, more, listing(**more.of(listing)))
        print_parts.append(show)
    if attacked:
        believed = assumed(**against.of(assumed))
        own["observer_believes"] = None if believed is None else open_policy(problem, believed)
        own = {"traces": 0} | own | against.of(play)
        with working("attacking simulated runs", quiet=is_silent):
            runs = play(problem, acting, **own)
        document["attack"] = _attack_document(runs)
        print_parts += [print, lambda: _print_attack(runs)]
    if certificate is not None:
        goal = opened.settings.get("goal", "opaque")
        aim = {"goal": goal, "hide": _to_hide(opened, pair, goal), "time_limit": proof_time_limit}
        with reported(quiet=is_silent) as progress:
            proof = certify(problem, acting, progress=progress, **aim | proving.of(certify))
        proof.save(certificate)
        document["certificate"] = _proof_document(proof, certificate)
        print_parts.append(lambda: print(f"\n{proof.summary()}\nwritten to {certificate}"))
    if limits:
        document["gates"] = [one.document() for one in limits]
        print_parts.append(lambda: print("\n".join(one.text for one in limits)))
    if as_json:
        print_json(document)
    else:
        for show in print_parts:
            show()
    stop(SOLVED if all(one.met for one in limits) else GATE_MISSED)


def _to_hide(opened: Opened, pair: str, goal: str) -> str:
    """The pairs that a certificate is about: the one that is measured, or those that the scenario hides."""
    from ..problem.pairs import OWN

    return opened.settings.get("hide", OWN) if goal == "opaque" and pair == OWN else pair


def _proof_document(proof: "Certificate", path: Path) -> Document:
    from ..formats.results.document import certificate_document

    names = ("feasible", "threshold", "best_known", "class_gap", "solver_gap", "price")
    return certificate_document(proof) | {"file": str(path)} | {name: getattr(proof, name) for name in names}


@dataclass(frozen=True)
class Listing:
    """How the worst sequences are listed, and the gains of an observer's actions."""

    by: By
    gain: str | None


def listing(*, by: By = "leaked_bits", gain: str | None = None) -> Listing:
    """`by`: leaked_bits, gain_bits or posterior; `gain`: a CSV file."""
    from ..common.errors import InputError

    if by not in get_args(By):
        raise InputError("--set", [f"measure.by={by}: expected one of {', '.join(get_args(By))}"])
    return Listing(by, gain)


def read_gain(path: str) -> "np.ndarray":
    """The gain matrix of a CSV file."""
    import numpy as np

    from ..common.errors import ModelFileError
    from ..formats.text import read_text

    try:
        return np.loadtxt(read_text(path, _MOST_GAIN_BYTES).splitlines(), delimiter=",", ndmin=2)
    except ValueError as error:
        raise ModelFileError(path, f"{error}: expected rows of numbers separated by commas") from None


def _detailed(
    problem: "Problem", acting: "Policy", asked: dict[str, Any], more: Further, shown: Listing
) -> tuple[Document, "Callable[[], None]"]:
    """Every quantity beside the opacity, as a document, and how to print it."""
    from ..measure.measures import quantities

    watched = problem.only(asked["pair"])
    if watched.secret_table.each is not None:  # quantities and guesses are about one value
        times = _details_of_times(problem, acting, asked["pair"], watched.secret_table.each.weights.tolist())
        return times, lambda: _show_details_of_times(times)
    given: dict[str, Any] = {"top": _TOP} | asked | more.of(quantities)
    if shown.gain is not None:
        given["gain"] = read_gain(shown.gain)
    found = quantities(problem, acting, **given)
    document = _details(problem, acting, asked["pair"], found, shown.by)
    document["recommendations"] = _recommendations(watched.observer, document, found, shown.by)
    source = "sensor" if watched.observer.sensors else "observation"
    return document, lambda: _show_details(document, found, shown.by, source)


def _details(problem: "Problem", policy: "Policy", pair: str, found: "Quantities", by: By) -> Document:
    from ..common.errors import TooLargeError
    from ..measure.measures import bits_over_time, joint_table, observation_costs, sensor_costs
    from ..report.leaking import find_sure

    document: Document = {"quantities": found.document(), "revealing": [vars(one) for one in found.worst[by]]}
    sure = find_sure(problem, policy, _SURE_SECONDS, pair)
    if sure is not None:
        document["disclosure"] = [vars(one) | {"over_time": one.over_time.tolist()} for one in sure]
    alone = problem.only(pair)
    observer, numbers = alone.observer, found.num_sequences * len(alone.secret_values)
    if found.method != "exact" or numbers > _MOST_LISTED:
        return document
    with contextlib.suppress(TooLargeError):  # few sequences, yet too long to keep
        table = joint_table(problem, policy, pair=pair)
        document |= {
            "revealing": [vars(one) for one in table.revealing(len(found.worst[by]), by=by)],
            "asymmetric_bits": {name: table.asymmetric_bits(name) for name in table.secret_values},
            "probability_surer_than_90": table.probability_surer(0.9),
        }
        document["bits_over_time"] = bits_over_time(problem, policy, pair=pair)
        costs: dict[str, float] = {}
        if policy.acts_on_observer(problem, pair):
            pass  # what it does without a sensor is not defined
        elif observer.sensors:
            costs = sensor_costs(problem, policy, pair=pair)
        elif observer.silent is not None:
            costs = observation_costs(problem, policy, pair=pair)
        document["costs_bits"] = costs
    return document


def _details_of_times(problem: "Problem", policy: "Policy", pair: str, weights: list[float]) -> Document:
    """What a secret with a value at every time has: the bits of each time, and how much each counts."""
    from ..common.errors import TooLargeError
    from ..measure.measures import bits_over_time

    document: Document = {"weights": weights}
    with contextlib.suppress(TooLargeError):
        document["bits_over_time"] = bits_over_time(problem, policy, pair=pair).tolist()
    return document


def _show_details_of_times(document: Document) -> None:
    print()
    if "bits_over_time" not in document:
        print("There are too many sequences for the bits of each time.")
        return
    rows = [
        [time, *both] for time, both in enumerate(zip(document["bits_over_time"], document["weights"], strict=True))
    ]
    print_table(["time", "bits hidden", "weight"], rows)


def _recommendations(observer: "Observer", document: Document, found: "Quantities", by: By) -> list[str]:
    """What follows from the details, one sentence each."""
    import numpy as np

    from ..report.leaking import Leaking, recommendations

    bits = np.array(document.get("bits_over_time", ()), dtype=float)
    costs = dict(sorted(document.get("costs_bits", {}).items(), key=lambda one: -one[1]))
    source = "sensor" if observer.sensors else "observation"
    leaking = Leaking(bits, np.zeros(len(bits)), 0, costs, source)
    return recommendations(leaking, found.worst[by], exact=found.method == "exact")


def _show_measured(
    document: Document, hidden: "Opacity", others: list[tuple[str, str]], given: tuple[str, str] | None
) -> None:
    wanted = document["threshold"]
    required = "" if wanted is None else f", required: at least {wanted:.6g}"
    missed = "" if document["feasible"] or others else " (not met)"
    print_facts(
        [
            ("pair", document["pair"] if document["pair"] != "own" else None),
            *hidden.facts(),
            ("return", f"{document['expected_return']:.6g}{required}{missed}"),
            *([given] if given is not None else []),
            *others,
            ("constraints", "not all met" if others and not document["feasible"] else None),
            ("evaluation", hidden.reason or None),
            ("policy", document["policy"]),
        ]
    )


def _show_details(document: Document, found: "Quantities", by: By, source: str) -> None:
    print()
    rows = [
        [name, one.prior, _with_error(one.posterior, one.std_error), "" if bits is None else _with_error(bits, error)]
        for name, one, bits, error in found.facts()
    ]
    print_table(["quantity", "before", "after", "bits leaked"], rows)
    print()
    over_time = " ".join(f"{bits:.4f}" for bits in document.get("bits_over_time", ()))
    print_facts(
        [
            ("quantities", f"{found.method}, {found.num_sequences:,} sequences: {found.reason}"),
            ("P(posterior > 0.9)", document.get("probability_surer_than_90")),
            *(
                (
                    f"P(ever {one['level']:.0%} sure of {one['of'].replace('any', 'any value').replace('truth', 'the truth')})",
                    _with_error(one["probability"], one["std_error"]),
                )
                for one in document.get("disclosure", ())
            ),
            ("uncertainty over time", f"{over_time} bits" if over_time else None),
        ]
    )
    parts = document.get("asymmetric_bits", {})
    if 0 < len(parts) <= _MOST_VALUES:
        print()
        print_table(["secret value", "part of the hidden bits"], parts.items())
    if document.get("costs_bits"):
        print()
        print_table([source, "bits leaked through it"], document["costs_bits"].items())
    rows = [
        [" ".join(map(event_text, one.observations)) or "(none)", one.probability, one.gain_bits, one.leaked_bits, one.guess,
         one.posterior[one.guess]]
        for one in found.worst[by]
    ]  # fmt: skip
    if rows:
        print()
        shown = "probability" if found.method == "exact" else "share of the sample"
        print_table([f"worst sequences by {by}", shown, "bits", "leaked bits", "best guess", "posterior"], rows)
    if document["recommendations"]:
        print()
        print("\n".join(document["recommendations"]))


def _with_error(value: float, error: float) -> str:
    return f"{value:.6g} ± {error:.2g}" if error else f"{value:.6g}"


def assumed(*, believes: str | None = None) -> str | None:
    """The policy that the observer assumes; None for the true one."""
    return believes


def _print_attack(found: "Attack") -> None:
    """How often the attack was right, its calibration, and the runs that are to be shown in full."""
    print(found.summary())
    if found.calibration:
        rows = [[f"{one.low:.2f} … {one.high:.2f}", one.count, one.claimed, one.achieved] for one in found.calibration]
        print_table(["claimed confidence", "runs", "claimed", "achieved"], rows)
    for number, trace in enumerate(found.traces):
        rows = [
            [event_text(event), *map(float, row)]
            for event, row in zip(trace.observations, trace.posterior[-len(trace.observations) :], strict=False)
        ]
        print_table(["observation", *found.secret_values], rows, title=f"run {number}: truth {trace.truth}")


def _attack_document(found: "Attack") -> dict[str, object]:
    """The numbers of an attack, as `--json` prints them."""
    from dataclasses import asdict

    from ..formats.results.document import encoded

    document = asdict(found) | {"opacity": encoded(found.opacity)}
    names = ("error", "cross_entropy_bits", "exact_cross_entropy_bits", "expected_calibration_error")
    return document | {name: getattr(found, name) for name in names}
