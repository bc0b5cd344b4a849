"""`veil measure` and `veil inspect`: what a policy gives away, and what a scenario holds."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .shared import (
    JsonOption,
    PolicyArgument,
    ScenarioArgument,
    SeedOption,
    guarded,
    is_model_file,
    open_policy,
    open_scenario,
    print_facts,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from ..policy.tables import Policy
    from ..problem.problem import Problem

_MOST_COUNTED = 20_000  # hidden states up to which observation sequences are counted when a scenario is looked at


@guarded
def measure(
    scenario: ScenarioArgument,
    policy: PolicyArgument,
    method: Annotated[
        Literal["auto", "exact", "bracket", "sampled"], typer.Option(help="How the opacity is found.")
    ] = "auto",
    width: Annotated[float, typer.Option(min=0, help="Of a bracket, in bits.")] = 1e-3,
    sequences: Annotated[int, typer.Option(min=2, help="Of a sample.")] = 2000,
    seed: SeedOption = 0,
    time_limit: Annotated[float | None, typer.Option(min=0, help="Seconds.")] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Guessing, bits over time, costs of sensors, revealing sequences.")
    ] = False,
    top: Annotated[int, typer.Option(min=0, help="How many revealing sequences to show.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Measure what a policy hides, what it gives away, and what it earns.

    Example: veil measure patrol.toml patrol-result --details
    """
    from .. import expected_return, opacity
    from ..engine.return_range import reaches, threshold
    from ..formats.results.folder import opacity_document, problem_document

    opened = open_scenario(scenario)
    problem, acting = opened.problem, open_policy(opened.problem, policy)
    hidden = opacity(problem, acting, method, width=width, sequences=sequences, seed=seed, time_limit=time_limit)
    earned = expected_return(problem, acting)
    document: dict[str, Any] = {
        "problem": problem_document(problem, opened.source),
        "policy": repr(acting),
        "opacity": opacity_document(hidden),
        "expected_return": earned,
        "threshold": threshold(problem),
        "feasible": reaches(problem, earned),
    }
    if details:
        document["details"] = _details(problem, acting, top)
    if as_json:
        print_json(document)
        return
    _show_measured(document, str(hidden), hidden.reason)


def _details(problem: "Problem", policy: "Policy", top: int) -> dict[str, Any]:
    from ..measure.measures import bits_over_time, joint_table, observation_costs, sensor_costs

    table = joint_table(problem, policy)
    costs: dict[str, float] = {}
    if problem.observer.sensors:
        costs = sensor_costs(problem, policy)
    elif problem.observer.silent is not None:
        costs = observation_costs(problem, policy)
    return {
        "guess_probability": table.guess_probability,
        "prior_guess_probability": table.prior_guess_probability,
        "min_entropy_leakage_bits": table.min_entropy_leakage_bits,
        "guessing_entropy": table.guessing_entropy,
        "asymmetric_bits": {name: table.asymmetric_bits(name) for name in problem.secret_values},
        "probability_surer_than_90": table.probability_surer(0.9),
        "bits_over_time": bits_over_time(problem, policy),
        "costs_bits": costs,
        "revealing": [vars(one) for one in table.revealing(top)],
    }


def _show_measured(document: dict[str, Any], hidden: str, reason: str) -> None:
    wanted = document["threshold"]
    print_facts(
        [
            ("policy", document["policy"]),
            ("opacity", hidden),
            ("found", reason or None),
            ("return", document["expected_return"]),
            ("threshold", "none" if wanted is None else wanted),
            ("kept", None if wanted is None else document["feasible"]),
        ]
    )
    found = document.get("details")
    if found is None:
        return
    over = " ".join(f"{bits:.4f}" for bits in found["bits_over_time"])
    print_facts(
        [
            ("P(correct guess)", f"{found['guess_probability']:.6f}; prior: {found['prior_guess_probability']:.6f}"),
            ("expected guesses", found["guessing_entropy"]),
            ("P(posterior > 0.9)", found["probability_surer_than_90"]),
            ("remaining bits over time", over),
        ]
    )
    print_table(["value of the secret", "bits"], found["asymmetric_bits"].items())
    if found["costs_bits"]:
        print_table(["leaked through", "bits"], found["costs_bits"].items())
    rows = [
        [" ".join(map(event_text, one["observations"])), one["probability"], one["leaked_bits"]]
        for one in found["revealing"]
    ]
    if rows:
        print_table(["revealing sequence", "probability", "bits leaked"], rows)


def event_text(event: Any) -> str:
    """What an observer writes down, as `veil observe` reads it."""
    return event if isinstance(event, str) else ",".join(event)


@guarded
def inspect(scenario: ScenarioArgument, as_json: JsonOption = False) -> None:
    """Look at a scenario: its size, what can be earned, what is hidden at first, and which methods fit.

    What depends on a policy is told for the uniform one. A model file can be looked at, too.

    Example: veil inspect patrol.toml
    """
    from ..formats.results.folder import problem_document

    if is_model_file(scenario):
        _inspect_model(scenario, as_json)
        return
    opened = open_scenario(scenario)
    problem = opened.problem
    document = problem_document(problem, opened.source) | _size(problem) | _returns(problem) | _hiding(problem)
    document["settings"] = {name: str(value) for name, value in opened.settings.items()}
    if as_json:
        print_json(document)
        return
    _show_inspected(document)


def _inspect_model(path: str, as_json: bool) -> None:
    """The summary of an imported model, with what was dropped or changed."""
    from .convert import read_model

    found = read_model(path)
    if not as_json:
        print(found.summary())
        return
    model, observer = found.model, found.observer
    print_json(
        {
            "source": found.source,
            "kind": found.kind,
            "states": model.num_states,
            "actions": model.num_actions,
            "transitions": model.num_transitions,
            "observations": None if observer is None else observer.num_observations,
            "variables": list(found.valuations),
            "labels": list(found.labels),
            "notes": list(found.notes),
        }
    )


def _size(problem: "Problem") -> dict[str, Any]:
    from ..engine.hidden import build

    model, hidden = problem.model, build(problem)
    transitions = sum(one.num_transitions for one in problem.models)
    return {
        "models": len(problem.models),
        "transitions": transitions,
        "density": transitions / (len(problem.models) * problem.num_states**2 * problem.num_actions),
        "hidden_states": hidden.num_states,
        "policy_rows": problem.num_cells,
        "available_actions": int(model.available.sum()),
        "observer_sees_actions": problem.observer.sees_actions,
        "observer_sees_start": problem.observer.sees_first,
        "agent_sees_observations": problem.agent_sees_observations,
        "secret_time": hidden.split_time,
        "discount": problem.discount,
        "return_over": problem.return_over,
    }


def _returns(problem: "Problem") -> dict[str, Any]:
    from ..engine.return_range import reaches, return_extremes, threshold

    ends = return_extremes(problem)
    return {
        "min_attainable_return": ends.smallest,
        "max_return": ends.largest,
        "returns_exact": ends.exact,
        "min_return": problem.min_return,
        "threshold": threshold(problem),
        "attainable": reaches(problem, ends.largest),
    }


def _hiding(problem: "Problem") -> dict[str, Any]:
    """What is secret before anything is seen, how many sequences there are, and which methods fit."""
    from .. import MarkovPolicy
    from ..common.logs import entropy_bits
    from ..engine.chain import make_chain
    from ..engine.size import tree_size

    chain = make_chain(problem, MarkovPolicy.uniform(problem))
    found: dict[str, Any] = {
        "prior": dict(zip(problem.secret_values, chain.prior.tolist(), strict=True)),
        "prior_bits": float(entropy_bits(chain.prior)),
    }
    if chain.hidden.num_states > _MOST_COUNTED:
        why = f"{chain.hidden.num_states:,} hidden states are too many to enumerate what can be seen"
        return found | {"sequences": None, "methods": {"exact": why, "bracket": why, "sampled": "fits"}}
    size = tree_size(chain)
    seconds = size.seconds(chain, gradient=False)
    exact = f"fits: about {seconds:.2g} s a value, {3 * seconds:.2g} s a gradient"
    if not size.exact or seconds > 300:
        exact = "too many sequences to enumerate"
    return found | {
        "sequences": size.num_sequences,
        "sequences_text": size.text(),
        "methods": {
            "exact": exact,
            "bracket": "any horizon; closes where the chain forgets",
            "sampled": "always, with a standard error",
        },
    }


def _show_inspected(found: dict[str, Any]) -> None:
    wanted = found["threshold"]
    asked = "none"
    if wanted is not None:
        asked = f"{wanted:.6g}{'' if found['attainable'] else ', which no policy reaches'}"
    sees = [word for word, does in (("actions", found["observer_sees_actions"]),
                                    ("the start", found["observer_sees_start"])) if does]  # fmt: skip
    print_facts(
        [
            ("name", found["name"]),
            ("states", found["states"]),
            ("actions", found["actions"]),
            ("models", None if found["models"] == 1 else found["models"]),
            ("transitions", f"{found['transitions']:,}, {100 * found['density']:.3g}% of all"),
            ("hidden states", found["hidden_states"]),
            ("observations", f"{found['observations']}; the observer sees {' and '.join(sees) or 'neither actions nor start'}"),
            ("horizon", found["horizon"]),
            ("secret", f"{found['secret']} at time {found['secret_time']}: {', '.join(found['secret_values'][:8])}"),
            ("prior", f"{found['prior_bits']:.6f} bits under the uniform policy"),
            ("return", f"{found['min_attainable_return']:.6g} … {found['max_return']:.6g}"
                       f"{'' if found['returns_exact'] else ' (bounds)'}"),
            ("threshold", asked),
            ("sequences", found.get("sequences_text")),
            *(found["methods"].items()),
            ("fingerprint", found["fingerprint"]),
        ]
    )  # fmt: skip
