"""Cases: the watcher's posterior, what is read from the joint table, attacks, returns and the soft baseline."""

from typing import Any

import veil

from .numbers import of_opacity
from .problems import ACTIONS, endless, history, markov, problem, remembering, theta, timed
from .registry import case


def posteriors(of: veil.Problem, policy: Any, shown: tuple[int, ...], acted: tuple[int, ...] = ()) -> list[Any]:
    """The posterior and the belief before anything was seen and after each observation."""
    watcher = veil.ObserverFilter(of, policy)
    found = [watcher.posterior, watcher.belief]
    for time, observation in enumerate(shown):
        pair = acted[time - 1] if acted and time else None
        found += [watcher.update(observation if pair is None else (pair, observation)), watcher.belief]
    return found


@case("filter-each-secret")
def filter_each_secret() -> dict[str, Any]:
    names = ("last", "initial", "at", "automaton", "model_unknown")
    found = {name: problem(name) for name in names}
    return {name: posteriors(of, timed(of), (1, 0, 2, 1, 0)) for name, of in found.items()}


@case("filter-each-watcher")
def filter_each_watcher() -> dict[str, Any]:
    acting, late, on_actions = problem("at", "sees_actions"), problem("at", "no_start"), problem("at", "on_actions")
    return {
        "sees_actions": posteriors(acting, markov(acting), (1, 0, 2, 0, 2), (0, 1, 1, 0)),
        "no_start": posteriors(late, markov(late), (1, 0, 2, 1)),
        "on_actions": posteriors(on_actions, markov(on_actions), (1, 0, 2, 1)),
    }


@case("filter-each-policy", search=True)
def filter_each_policy() -> dict[str, Any]:
    of = problem("last", horizon=3)
    policies = {name: remembering(of, name) for name in ("observations", "states", "zones", "controller")}
    found = {name: posteriors(of, policy, (1, 0, 2, 1)) for name, policy in policies.items()}
    return found | {"course": posteriors(of, history(), (1, 0, 2, 1))}


def table_numbers(of: veil.Problem, policy: Any) -> dict[str, Any]:
    """Every reading of a joint table."""
    table = veil.measures.joint_table(of, policy)
    revealing = {by: table.revealing(4, by=by) for by in ("leaked_bits", "gain_bits", "probability")}
    return {
        "num_sequences": table.num_sequences,
        "probabilities": table.probabilities,
        "events": table.events,
        "prior": table.prior,
        "posterior": table.posterior,
        "bits": table.bits,
        "prior_bits": table.prior_bits,
        "guess_probability": table.guess_probability,
        "prior_guess_probability": table.prior_guess_probability,
        "min_entropy_leakage_bits": table.min_entropy_leakage_bits,
        "guessing_entropy": table.guessing_entropy,
        "asymmetric_bits": [table.asymmetric_bits(value) for value in range(len(of.secret_values))],
        "probability_surer": [table.probability_surer(0.7), table.probability_surer(0.7, 0)],
        "revealing": {
            by: [[one.probability, *one.posterior.values(), one.gain_bits, one.leaked_bits] for one in sequences]
            for by, sequences in revealing.items()
        },
    }


@case("table-each-secret")
def table_each_secret() -> dict[str, Any]:
    found = {name: problem(name, horizon=3) for name in ("last", "initial", "at", "automaton_unknown", "model")}
    return {name: table_numbers(of, markov(of)) for name, of in found.items()}


@case("table-each-watcher")
def table_each_watcher() -> dict[str, Any]:
    found = {name: problem("last", name, 3) for name in ("on_actions", "sees_actions", "no_start", "garbled")}
    return {name: table_numbers(of, timed(of)) for name, of in found.items()}


@case("table-history", search=True)
def table_history() -> dict[str, Any]:
    return {"course": table_numbers(problem(horizon=3), history())}


@case("bits-over-time")
def bits_over_time() -> dict[str, Any]:
    found = {name: problem(name) for name in ("last", "initial", "at", "automaton", "model")}
    return {name: veil.measures.bits_over_time(of, timed(of)) for name, of in found.items()}


@case("costs-of-observations-and-sensors")
def costs() -> dict[str, Any]:
    of, grid = problem("at"), veil.gallery.load("office-patrol", horizon=4, min_return=None)
    uniform = veil.MarkovPolicy.uniform(grid)
    return {
        "observations": list(veil.measures.observation_costs(of, markov(of)).values()),
        "shown_as_the_last": list(veil.measures.observation_costs(of, markov(of), silent=2).values()),
        "sensors": list(veil.measures.sensor_costs(of, timed(of)).values()),
        "cameras": list(veil.measures.sensor_costs(grid, uniform).values()),
    }


def attack_numbers(found: Any) -> dict[str, Any]:
    """All numbers of an attack."""
    estimates = {
        "accuracy": found.accuracy,
        "finite_cross_entropy_bits": found.finite_cross_entropy_bits,
        "infinite_share": found.infinite_share,
        "impossible_share": found.impossible_share,
    }
    mistake = found.mistake
    if mistake is not None:
        estimates |= {"mistake": mistake.finite_bits, "knowing_accuracy": mistake.knowing_accuracy}
    return {
        **{name: None if one is None else [one.value, one.std_error, one.exact] for name, one in estimates.items()},
        "blind_accuracy": found.blind_accuracy,
        "accuracy_over_time": found.accuracy_over_time,
        "cross_entropy_bits": found.cross_entropy_bits,
        "exact_cross_entropy_bits": found.exact_cross_entropy_bits,
        "expected_calibration_error": found.expected_calibration_error,
        "fano_error": found.fano_error,
        "error": found.error,
        "opacity": of_opacity(found.opacity),
        "calibration": [[one.low, one.high, one.count, one.claimed, one.achieved] for one in found.calibration],
        "traces": [trace.posterior for trace in found.traces],
        "mistake_bits": None if mistake is None else [mistake.bits, mistake.sampled_bits, mistake.exact_bits],
    }


@case("attack-each-secret")
def attack_each_secret() -> dict[str, Any]:
    found = {name: problem(name) for name in ("last", "initial", "automaton", "model")}
    return {name: attack_numbers(veil.attack(of, markov(of), 400, seed=3)) for name, of in found.items()}


@case("attack-mistaken")
def attack_mistaken() -> dict[str, Any]:
    of = problem("last")
    sharp = veil.MarkovPolicy.deterministic(of, [0, 1, 0, 1])
    believed = {"soft": timed(of), "sharp": sharp}
    return {
        name: attack_numbers(veil.attack(of, markov(of), 400, observer_believes=policy, seed=4, bins=5, traces=2))
        for name, policy in believed.items()
    }


@case("attack-history", search=True)
def attack_history() -> dict[str, Any]:
    return {"course": attack_numbers(veil.attack(problem(horizon=3), history(), 200, seed=1))}


@case("returns")
def returns() -> dict[str, Any]:
    names = ("last", "automaton", "model", "model_unknown")
    found = {name: problem(name) for name in names} | {"endless": endless()}
    return {
        name: [veil.expected_return(of, markov(of)), veil.expected_return(of, timed(of)), veil.max_return(of)]
        for name, of in found.items()
    }


@case("return-gradient")
def return_gradients() -> dict[str, Any]:
    found = {"last": problem("last"), "model": problem("model"), "endless": endless()}
    shapes = {name: (of.num_cells, of.num_actions) for name, of in found.items()}
    stationary = {name: veil.measures.return_gradient(of, theta(*shapes[name])) for name, of in found.items()}
    of = found["last"]
    return stationary | {"timed": veil.measures.return_gradient(of, theta(of.horizon, of.num_cells, ACTIONS))}


@case("soft-policies")
def soft_policies() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("last", "automaton", "model"):
        of = problem(name)
        for temperature in (0.0, 0.1, 2.0):
            stationary = veil.soft.soft_policy(of, temperature)
            finite = veil.soft.soft_policy(of, temperature, horizon="finite", discount=1.0)
            found[f"{name}-{temperature}"] = [stationary.probabilities, finite.probabilities]
    values = veil.soft.soft_action_values(problem("last").model, 0.3, 0.95)
    return found | {"values": values}


@case("soft-sweep")
def soft_sweep() -> list[Any]:
    of = problem("last", min_return="60%")
    points = veil.soft.soft_sweep(of, discount=0.8)
    return [[one.temperature, of_opacity(one.opacity), one.expected_return, one.feasible] for one in points]
