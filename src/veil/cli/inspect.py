"""`veil inspect`: what a scenario or a model file contains, and which methods fit."""

from typing import TYPE_CHECKING

from .shared import (
    Document,
    JsonOption,
    ScenarioArgument,
    is_model_file,
    open_model,
    open_scenario,
    print_facts,
    print_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..problem.problem import Problem

_MOST_COUNTED = 20_000  # hidden states up to which observation sequences are counted, which takes about a second
_PRIOR_SECONDS = 5.0  # for the entropy of a whole path, under the uniform policy
_SECONDS = 1.0  # for counting observation sequences, and for finding out whether constraints can be met together
_HOPELESS_SECONDS = 300.0  # a forecast beyond which an exact value is not worth suggesting


def inspect(scenario: ScenarioArgument, as_json: JsonOption = False, *, changes: tuple[str, ...] = ()) -> None:
    """Describe a scenario: its size, the range of returns, the entropy of the secret, the plan of a search.

    Values that depend on a policy are those of the uniform policy. Model files are accepted too.

    Example: veil inspect patrol.toml
    """
    from ..formats.results.document import problem_document
    from ..policy.memory import memory_document

    if is_model_file(scenario):
        _inspect_model(scenario, changes, as_json)
        return
    opened = open_scenario(scenario, changes)
    problem = opened.problem
    document = problem_document(problem, opened.source, changes) | _size(problem) | _returns(problem) | _hiding(problem)
    if problem.pairs:
        document["pairs"] = [{"name": one.name, "min": one.min, "max": one.max} for one in problem.pairs]
    document["plan"] = _plan(problem, opened.settings)
    document["settings"] = {
        name: memory_document(value) if name == "memory" else value for name, value in opened.settings.items()
    }
    if as_json:
        print_json(document)
        return
    _show_inspected(document)


def _plan(problem: "Problem", given: "Mapping[str, Any]") -> list[str]:
    """How `veil solve` would search with the settings of the scenario, a sentence for each class of policies."""
    from ..common.errors import VeilError
    from ..planning.options import SolveOptions
    from ..planning.plan import plan

    try:
        return plan(problem, SolveOptions(**given)).lines()
    except VeilError as error:
        return [str(error)]


def _inspect_model(path: str, changes: tuple[str, ...], as_json: bool) -> None:
    """The summary of an imported model, with what was dropped or changed."""
    found = open_model(path, changes).model
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


def _size(problem: "Problem") -> Document:
    from ..engine.compile import build

    model, hidden = problem.model, build(problem.with_clock(), "markov")
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
        "agent_sees": problem.agent_sees if isinstance(problem.agent_sees, str) else "readings of its own",
        "secret_time": hidden.split_time,
        "discount": problem.discount,
        "return_over": problem.return_over,
    }


def _returns(problem: "Problem") -> Document:
    from ..engine.feasibility import targets
    from ..engine.return_range import return_extremes, threshold

    ends, wanted = return_extremes(problem), threshold(problem)
    bounds: Document = {}
    if problem.others:
        bounds = {"constraints": [one.explained for one in targets(problem)], "feasible": _feasible(problem)}
    return bounds | {
        "min_attainable_return": ends.smallest,
        "max_return": ends.largest,
        "returns_exact": ends.exact,
        "min_return": problem.min_return,
        "threshold": wanted,
        "threshold_share": ends.share_text(problem.min_return),
        "attainable": wanted is None or wanted <= ends.largest,
    }


def _feasible(problem: "Problem") -> bool | None:
    """Whether all constraints can be met together; None if that is not known within a second."""
    from ..common.clock import Clock, OutOfTime
    from ..engine.feasibility import feasible_mixture

    try:
        mixture = feasible_mixture(problem, Clock(_SECONDS))
    except OutOfTime:
        return None
    return None if not mixture.complete and not mixture.is_met and not mixture.is_excluded else not mixture.is_excluded


def _hiding(problem: "Problem") -> Document:
    """The prior of the secret, the number of observation sequences, and which methods fit."""
    from .. import MarkovPolicy
    from ..common.clock import Clock
    from ..common.logs import entropy_bits
    from ..engine.chain import make_chain, observed_chain
    from ..engine.size import tree_size
    from ..measure.exact import Budget
    from ..measure.trajectory import path_bits

    chain = observed_chain(make_chain(problem, MarkovPolicy.uniform(problem)))
    found: Document = {
        "prior": dict(zip(problem.secret_values, chain.prior.tolist(), strict=True)),
        "prior_bits": float(entropy_bits(chain.prior)),
    }
    if problem.secret_table.path is not None:
        found["prior_bits"] = path_bits(chain, Budget(time_limit=_PRIOR_SECONDS))
    if chain.written is not None:
        methods = {
            "exact": "fits if the strings without silent steps are few",
            "bracket": "a lower bound: what is hidden from the same observer with a clock",
            "sampled": "fits; gives a standard error",
        }
        return found | {"sequences": None, "methods": methods}
    if chain.hidden.num_states > _MOST_COUNTED:
        why = f"{chain.hidden.num_states:,} hidden states are too many to enumerate sequences"
        return found | {"sequences": None, "methods": {"exact": why, "bracket": why, "sampled": "fits"}}
    size = tree_size(chain, Clock(_SECONDS), partial=True)
    seconds = size.seconds(chain, gradient=False)
    exact = f"fits: about {seconds:.2g} s per value, {3 * seconds:.2g} s per gradient"
    if seconds > _HOPELESS_SECONDS or (size.complete and not size.exact):
        exact = "too many sequences to enumerate"
    elif not size.complete:
        exact = f"not known: the sequences were not counted within {_SECONDS:g} s"
    return found | {
        "sequences": size.num_sequences,
        "sequences_text": size.text(),
        "methods": {
            "exact": exact,
            "bracket": "fits any horizon; tight if the chain mixes",
            "sampled": "fits; gives a standard error",
        },
    }


def _constraints_text(found: Document) -> str | None:
    if "constraints" not in found:
        return None
    met = {True: "can be met together", False: "cannot be met together"}.get(
        found["feasible"], f"whether they can be met together was not found out within {_SECONDS:g} s"
    )
    return f"{', '.join(found['constraints'])}; {met}"


def _pair_text(pair: Document) -> str:
    given = (("at least", pair["min"]), ("at most", pair["max"]))
    bounds = " and ".join(f"{words} {bits:g}" for words, bits in given if bits is not None)
    return f"{pair['name']} ({bounds} bits)" if bounds else pair["name"]


def _show_inspected(found: Document) -> None:
    wanted = found["threshold"]
    asked = "none"
    if wanted is not None:
        share = f"{found['threshold_share']} is " if found["threshold_share"] else ""
        asked = f"{share}{wanted:.6g}{'' if found['attainable'] else ', which no policy reaches'}"
    sees = [word for word, does in (("actions", found["observer_sees_actions"]),
                                    ("the start", found["observer_sees_start"])) if does]  # fmt: skip
    print_facts(
        [
            ("name", found["name"]),
            ("states", found["states"]),
            ("actions", found["actions"]),
            ("models", None if found["models"] == 1 else found["models"]),
            ("transitions", f"{found['transitions']:,} ({100 * found['density']:.3g}% of all possible)"),
            ("hidden states", found["hidden_states"]),
            ("observations", f"{found['observations']}; the observer sees {' and '.join(sees) or 'neither actions nor start'}"),
            ("horizon", found["horizon"]),
            ("secret", f"{found['secret']} at time {found['secret_time']}: {', '.join(found['secret_values'][:8])}"),
            ("prior entropy", f"{found['prior_bits']:.6f} bits, under the uniform policy"),
            ("return", f"{found['min_attainable_return']:.6g} … {found['max_return']:.6g}"
                       f"{'' if found['returns_exact'] else ' (bounds)'}"),
            ("threshold", asked),
            ("constraints", _constraints_text(found)),
            ("pairs", ", ".join(map(_pair_text, found.get("pairs", ()))) or None),
            ("sequences", found.get("sequences_text")),
            *(found["methods"].items()),
            *(("search" if not number else "", line) for number, line in enumerate(found["plan"])),
            ("fingerprint", found["fingerprint"]),
        ]
    )  # fmt: skip
