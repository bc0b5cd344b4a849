"""Cases: what is written to files and printed, its numbers or its bytes, and what comes back when it is read."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import veil

from .commands import veil_command, veil_json
from .numbers import file_bytes, of_document, of_policy, without_comments
from .problems import MEMORIES, history, markov, problem, remembering, timed
from .registry import case
from .values import Digest

_ROOMS = "gallery:two-rooms"
_COURIER = "gallery:courier-depots"
_PATROL = "gallery:office-patrol"


def in_folder(compute: Callable[[Path], Any]) -> Callable[[], Any]:
    """The function, given an empty folder that is removed afterwards."""

    def inside() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return compute(Path(folder))

    return inside


def fingerprint(of: str | Path) -> Digest:
    """The hash of a scenario, as the command line tells it."""
    return Digest(veil_json("inspect", of)["fingerprint"])


def looked_at(name: str) -> Any:
    return of_document(veil_json("inspect", f"gallery:{name}"))


for _name in veil.gallery.names():
    case(f"inspect-{_name}", _name)(looked_at)


@case("policy-files")
@in_folder
def policy_files(folder: Path) -> dict[str, Any]:
    of = problem(horizon=3)
    policies = {"markov": markov(of), "timed": timed(of), **{name: remembering(of, name) for name in MEMORIES}}
    found: dict[str, Any] = {}
    for name, policy in policies.items():
        path = folder / f"{name}.safetensors"
        policy.save(path)
        found[name] = [path.read_bytes(), of_policy(veil.load_policy(path))]
    return found


@case("policy-file-history", search=True)
@in_folder
def history_file(folder: Path) -> dict[str, Any]:
    path = folder / "policy.safetensors"
    history().save(path)
    again = veil.load_policy(path)
    return {"bytes": path.read_bytes(), "again": file_bytes(again), "same": path.read_bytes() == file_bytes(again)}


def walk(of: veil.Problem, player: Any, *, sees: bool) -> list[int]:
    """The actions that a player chooses where the likeliest state and observation always follow."""
    chosen: list[int] = []
    state = int(of.model.initial.argmax())
    for _ in range(of.horizon):
        seen = int(of.observer.emissions[state].argmax()) if sees else None
        chosen.append(player.act(state, seen))
        state = int(of.model.transitions[state, chosen[-1]].argmax())
    return chosen


@case("players", search=True)
def players() -> dict[str, Any]:
    """The actions that policies choose along runs, with several seeds."""
    of = problem(horizon=3)
    found: dict[str, Any] = {
        name: [walk(of, remembering(of, name).start(of, seed), sees=name == "observations") for seed in range(6)]
        for name in MEMORIES
    }
    return found | {"course": [walk(of, history().start(of, seed), sees=True) for seed in range(6)]}


@case("scenario-round-trip")
@in_folder
def scenarios(folder: Path) -> dict[str, Any]:
    """A scenario file for each problem of the gallery, and the problem that it holds."""
    found: dict[str, Any] = {}
    for name in veil.gallery.names():
        path = folder / f"{name}.toml"
        veil_command("convert", f"gallery:{name}", path)
        found[name] = [without_comments(path), fingerprint(path), veil.max_return(veil.load(path))]
    return found


@case("scenario-starters")
@in_folder
def starters(folder: Path) -> dict[str, Any]:
    kinds = ("grid", "graph")  # the third kind reads a model file that is not there yet
    for kind in kinds:
        veil_command("new", folder / f"{kind}.toml", "--from", kind)
    return {kind: of_document(veil_json("inspect", folder / f"{kind}.toml")) for kind in kinds}


@case("model-files")
@in_folder
def model_files(folder: Path) -> dict[str, Any]:
    """A model in each format, and the scenario that each file gives."""
    found: dict[str, Any] = {}
    for ending in ("drn", "pomdp", "npz"):
        path, scenario = folder / f"model.{ending}", folder / f"{ending}.toml"
        veil_command("convert", _PATROL, path)
        kept = dict(np.load(path)) if ending == "npz" else {}
        arrays = {name: array for name, array in kept.items() if array.dtype.kind in "fib"}
        found[ending] = {"bytes": without_comments(path) if ending != "npz" else path.read_bytes(), "arrays": arrays}
        if ending != "drn":  # each state shows one observation there, so the watcher is left out
            veil_command("convert", path, scenario, "--secret", "state=r2c0", "--set", "horizon=3")
            found[ending]["scenario"] = fingerprint(scenario)
    return found


def exported(folder: Path, policy: Path, scenario: str) -> dict[str, Any]:
    """A policy as text, and the chain that it makes."""
    found: dict[str, Any] = {}
    for ending in ("json", "csv", "drn", "npz"):
        path = folder / f"policy.{ending}"
        veil_command("convert", policy, path, "--scenario", scenario)
        if ending == "json":
            found[ending] = of_document(json.loads(path.read_text()))
        elif ending == "npz":
            arrays = {name: array for name, array in np.load(path).items() if array.dtype.kind in "fib"}
            found[ending] = {"bytes": path.read_bytes(), "arrays": arrays}
        else:
            found[ending] = without_comments(path)
    return found


@case("policy-exports")
@in_folder
def policy_exports(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("two-rooms", "badge-doors"):
        of = veil.gallery.load(name)
        policies = {"markov": markov(of), "timed": timed(of), "controller": remembering(of, "controller")}
        for kind, policy in policies.items():
            inside = folder / f"{name}-{kind}"
            inside.mkdir()
            policy.save(inside / "it.safetensors")
            found[f"{name}-{kind}"] = exported(inside, inside / "it.safetensors", f"gallery:{name}")
    return found


@case("policy-exports-history", search=True)
@in_folder
def history_exports(folder: Path) -> dict[str, Any]:
    veil_command(
        "solve", _ROOMS, "--method", "game", "--set", "solve.certificate=false", "--quiet", "-o", folder / "result"
    )
    return {"course": exported(folder, folder / "result", _ROOMS)}


@case("result-folder", search=True)
@in_folder
def result_folder(folder: Path) -> dict[str, Any]:
    """The numbers of a result, and that its proof holds."""
    words = ("--set", "solve.starts=2", "--set", "solve.iterations=20", "--proof-time-limit", 600, "--quiet")
    printed = veil_json("solve", _ROOMS, "-o", folder / "result", *words)
    document = json.loads((folder / "result" / "result.json").read_text())
    lines = (folder / "result" / "history.csv").read_text().splitlines()[1:]
    checked = of_document(veil_json("verify", folder / "result"))
    return {
        "bits": document["answer"]["opacity"]["bits"],
        "verified": checked,
        "course": {
            "document": of_document(document),
            "printed": of_document(printed),
            "history": [[float(entry) for entry in line.split(",")[:5]] for line in lines],
            "policy": (folder / "result" / "policy.safetensors").read_bytes(),
        },
    }


@case("printed-measures")
def printed_measures() -> dict[str, Any]:
    return {
        name: of_document(veil_json("measure", f"gallery:{name}", "uniform", "--details"))
        for name in ("two-rooms", "courier-depots", "badge-doors", "convoy-checkpoint")
    }


@case("printed-posteriors")
def printed_posteriors() -> list[Any]:
    lines = veil_command("observe", _ROOMS, "uniform", "--json", given="0\nbeep\n\n0\n0\n").splitlines()
    return [of_document(json.loads(line)) for line in lines]


@case("simulated-runs")
@in_folder
def simulated(folder: Path) -> bytes:
    veil_command("simulate", _COURIER, "uniform", "--runs", 5, "--seed", 7, "-o", folder / "runs.csv")
    return (folder / "runs.csv").read_bytes()
