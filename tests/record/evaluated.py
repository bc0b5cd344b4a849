"""Cases: opacities and their gradients, for each kind of secret, watcher and policy."""

from typing import Any

import veil

from .numbers import of_opacity
from .problems import MEMORIES, SECRETS, history, markov, problem, remembering, theta, timed
from .registry import case


def every_method(of: veil.Problem, policy: Any) -> dict[str, Any]:
    """The opacity by each method, and the return."""
    by_method = {
        "exact": veil.opacity(of, policy, "exact"),
        "bracket": veil.opacity(of, policy, "bracket"),
        "sampled": veil.opacity(of, policy, "sampled", sequences=300, seed=5),
        "auto": veil.opacity(of, policy),
    }
    numbers: dict[str, Any] = {name: of_opacity(found) for name, found in by_method.items()}
    return numbers | {"expected_return": veil.expected_return(of, policy)}


def opacity_of_secret(secret: str) -> dict[str, Any]:
    of = problem(secret)
    return {"markov": every_method(of, markov(of)), "timed": every_method(of, timed(of))}


for _secret in SECRETS:
    case(f"opacity-{_secret}", _secret)(opacity_of_secret)


def opacity_before_watcher(watcher: str) -> dict[str, Any]:
    found = {secret: problem(secret, watcher, 3) for secret in ("last", "at", "model")}
    return {secret: every_method(of, timed(of)) for secret, of in found.items()}


for _watcher in ("on_actions", "sees_actions", "no_start", "garbled"):
    case(f"opacity-watcher-{_watcher}", _watcher)(opacity_before_watcher)


def opacity_with_memory(memory: str) -> dict[str, Any]:
    found = {secret: problem(secret, horizon=3) for secret in ("last", "initial")}
    numbers: dict[str, Any] = {secret: every_method(of, remembering(of, memory)) for secret, of in found.items()}
    of = found["last"]
    lifted = veil.MemoryPolicy.lift(of, MEMORIES[memory](), markov(of))
    return numbers | {"lifted": lifted.probabilities, "lifted_bits": veil.opacity(of, lifted, "exact").bits}


for _memory in MEMORIES:
    case(f"opacity-memory-{_memory}", _memory)(opacity_with_memory)


def opacity_on_history(secret: str) -> dict[str, Any]:
    return every_method(problem(secret, horizon=3), history(secret))


for _secret in ("last", "at", "automaton"):
    case(f"opacity-history-{_secret}", _secret, search=True)(opacity_on_history)


@case("opacity-merged-histories")
def opacity_merged() -> list[Any]:
    of = problem("last", horizon=7)
    tolerances = (1e-6, 1e-2)
    return [of_opacity(veil.opacity(of, markov(of), "exact", merge_tolerance=each)) for each in tolerances]


@case("opacity-long-horizon")
def opacity_long() -> dict[str, Any]:
    """Too long to enumerate: windows, and what `auto` makes of it."""
    found = {secret: problem(secret, horizon=40) for secret in ("last", "initial_groups", "at")}
    brackets = {secret: veil.opacity(of, markov(of), "bracket", width=0.01) for secret, of in found.items()}
    numbers = {secret: of_opacity(bracket) for secret, bracket in brackets.items()}
    return numbers | {"auto": of_opacity(veil.opacity(found["last"], markov(found["last"]), width=0.01))}


@case("opacity-sampled-to-an-error")
def opacity_to_an_error() -> dict[str, Any]:
    of = problem("initial", horizon=8)
    return of_opacity(veil.opacity(of, markov(of), "sampled", std_error=0.02, sequences=100, seed=2))


def gradients(secret: str) -> dict[str, Any]:
    """Of a stationary and of a timed policy, by each method."""
    of = problem(secret)
    shapes = {"markov": (of.num_cells, of.num_actions), "timed": (of.horizon, of.num_cells, of.num_actions)}
    found: dict[str, Any] = {}
    for name, shape in shapes.items():
        at = theta(*shape, salt=3)
        for method in ("exact", "bracket", "sampled", "auto"):
            value, slope = veil.opacity_gradient(of, at, method, sequences=200, seed=1)
            found[f"{name}-{method}"] = {"opacity": of_opacity(value), "gradient": slope}
    return found


for _secret in ("last", "initial", "at", "automaton", "model"):
    case(f"gradient-{_secret}", _secret)(gradients)


@case("gradient-memory")
def gradients_with_memory() -> dict[str, Any]:
    of = problem("last", horizon=3)
    found: dict[str, Any] = {}
    for name, make in MEMORIES.items():
        memory = make()
        at = theta(*veil.MemoryPolicy.uniform(of, memory).probabilities.shape)
        value, slope = veil.opacity_gradient(of, at, memory=memory)
        gained, return_slope = veil.measures.return_gradient(of, at, memory=memory)
        found[name] = {"bits": value.bits, "gradient": slope, "return": gained, "return_gradient": return_slope}
    return found


@case("gradient-some-actions-unavailable")
def gradients_masked() -> dict[str, Any]:
    of = veil.gallery.load("courier-depots", horizon=4, min_return=None)
    value, slope = veil.opacity_gradient(of, theta(of.num_cells, of.num_actions))
    gained, return_slope = veil.measures.return_gradient(of, theta(of.num_cells, of.num_actions))
    return {"opacity": of_opacity(value), "gradient": slope, "return": gained, "return_gradient": return_slope}


def gallery_problem(name: str) -> dict[str, Any]:
    """What a short version of a problem of the gallery hides and earns under the uniform policy."""
    of = veil.gallery.load(name) if name == "two-rooms" else veil.gallery.load(name, horizon=5, min_return=None)
    uniform = veil.MarkovPolicy.uniform(of)
    return {
        "opacity": of_opacity(veil.opacity(of, uniform, "exact")),
        "expected_return": veil.expected_return(of, uniform),
        "max_return": veil.max_return(of),
        "available": of.available,
    }


@case("gallery-values")
def gallery_values() -> dict[str, Any]:
    return {name: gallery_problem(name) for name in veil.gallery.names()}
