"""Every malformed file through the command line: exit code 2, a message that names the place, no traceback, little cost."""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import veil
from tests.cli.commands import Done
from tests.cli.commands import veil as command
from tests.formats.test_malformed import DRN_FILES, NPZ, POMDP
from tests.formats.test_scenario_defects import CASES
from tests.small_parent import run_small
from veil.formats import gallery
from veil.formats.results.folder import write_result

# On the command line there is always a folder.
SCENARIOS = {name: (text, pieces) for name, text, pieces in CASES if name != "file without a folder"}
PROBLEM = "gallery:two-rooms"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(done: Done, name: str, *words: str) -> None:
    """The command ended as it must for a malformed file, and left nothing behind."""
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    for piece in (name, *words):
        assert piece in done.err, done.err
    assert not [path for path in os.listdir() if path.startswith((".", "out"))]


def put(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


@pytest.mark.parametrize("case", SCENARIOS)
def test_scenarios(case: str):
    text, pieces = SCENARIOS[case]
    refused(command("solve", put("bad.toml", text), "-o", "out"), "bad.toml", *pieces)


@pytest.mark.parametrize("case", POMDP)
def test_pomdp_files(case: str):
    text, line, words = POMDP[case]
    place = "bad.pomdp" if line is None else f"bad.pomdp, line {line}:"
    refused(command("convert", put("bad.pomdp", text), "out.npz"), place, words)


@pytest.mark.parametrize("case", DRN_FILES)
def test_drn_files(case: str):
    text, line, words = DRN_FILES[case]
    refused(command("convert", put("bad.drn", text), "out.npz"), f"bad.drn, line {line}:", words)


@pytest.mark.parametrize("case", NPZ)
def test_npz_files(case: str):
    make, words = NPZ[case]
    refused(command("convert", put("bad.npz", make()), "out.pomdp"), "bad.npz", words)


def tensors(table: Any, kind: str = "markov", key: str = "probabilities", form: str = "veil-policy-1") -> bytes:
    return save({key: np.ascontiguousarray(table)}, metadata={"veil": f"{form} {kind}"})


def header(document: dict[str, Any], content: bytes = b"") -> bytes:
    text = json.dumps(document).encode()
    return len(text).to_bytes(8, "little") + text + content


HALF = np.full((2, 2), 0.5)
GOOD = tensors(HALF)
HISTORY = {"executable": True, "horizon": 1, "told_at": None, "arrays": [["<i8", 1]]}


def history(**changes: Any) -> bytes:
    return tensors(np.zeros(8, dtype=np.uint8), f"history {json.dumps(HISTORY | changes)}")


POLICIES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "cannot be read as a policy"),
    "text": (b"hello, I am a policy", "cannot be read as a policy"),
    "cut short": (GOOD[:-9], "cannot be read as a policy"),
    "longer than it says": (GOOD + bytes(100), "cannot be read as a policy"),
    "a header of a terabyte": ((2**40).to_bytes(8, "little") + GOOD[8:], "cannot be read as a policy"),
    "a header that is no document": ((4).to_bytes(8, "little") + b"[[[[", "cannot be read as a policy"),
    "a table of a terabyte": (
        header({"probabilities": {"dtype": "F64", "shape": [2**19, 2**18], "data_offsets": [0, 2**40]}}),
        "cannot be read as a policy",
    ),
    "offsets that overlap": (
        header({"probabilities": {"dtype": "F64", "shape": [1, 1], "data_offsets": [8, 0]}}, bytes(8)),
        "cannot be read as a policy",
    ),
    "weights of a network": (save({"layer.weight": HALF}), "not a policy of veil"),
    "another version": (tensors(HALF, form="veil-policy-9"), "expected 'veil-policy-1'"),
    "no table": (tensors(HALF, key="chances"), "not a policy of veil"),
    "an unknown kind": (tensors(HALF, "psychic"), "unknown kind 'psychic'"),
    "rows that sum to two": (tensors(2 * HALF), "sums to 2"),
    "negative": (tensors([[1.5, -0.5], [0.5, 0.5]]), "-0.5"),
    "not numbers": (tensors(np.full((2, 2), np.nan)), "nan"),
    "three axes in a policy of two": (tensors(np.full((1, 2, 2), 0.5)), "shape (1, 2, 2)"),
    "no states": (tensors(np.zeros((0, 2))), "at least one state"),
    "of another problem": (tensors(np.full((3, 2), 0.5)), "3"),
    "of another horizon": (tensors(np.full((9, 2, 2), 0.5), "timed"), "9"),
    "a memory that is none": (tensors(HALF, 'memory {"kind": "elephant"}'), "bad.safetensors"),
    "a memory that is no document": (tensors(HALF, "memory {{{"), "bad.safetensors"),
    "a history of nothing": (history(arrays=[]), "cannot be read as a history policy"),
    "a history of objects": (history(arrays=[["|O", 1]]), "cannot be read as a history policy"),
    "a history of an outdated type": (history(arrays=[["a", 1]]), "cannot be read as a history policy"),
    "a history of nameless type": (history(arrays=[[7, 1]]), "cannot be read as a history policy"),
    "a history of negative size": (history(arrays=[["<i8", -1]]), "cannot be read as a history policy"),
    "a history of endless time": (history(horizon=float("inf")), "cannot be read as a history policy"),
    "a history of many bytes": (history(arrays=[["<i8", 2**62, 4]]), "cannot be read as a history policy"),
}


@pytest.mark.parametrize("case", POLICIES)
def test_policies(case: str):
    content, words = POLICIES[case]
    done = command("measure", PROBLEM, put("bad.safetensors", content))
    refused(done, "bad.safetensors" if case not in ANOTHER else "policy", words)


ANOTHER = {"of another problem", "of another horizon"}


@pytest.fixture(scope="module")
def solved() -> tuple[veil.Problem, veil.Solution]:
    problem = gallery.load("two-rooms")
    return problem, veil.solve(problem, starts=1, iterations=2, certificate=False)


def entry(*path: str, to: Any) -> Callable[[Path], None]:
    """Sets an entry of the document."""

    def change(folder: Path) -> None:
        document = json.loads((folder / "result.json").read_text("utf-8"))
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        if to is ...:
            del holder[path[-1]]
        else:
            holder[path[-1]] = to
        (folder / "result.json").write_text(json.dumps(document), encoding="utf-8")

    return change


def content(data: bytes, name: str = "result.json") -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return change


def spoil_policy(folder: Path) -> None:
    """Another policy, with its sum in the document made right: the policy itself must be refused."""
    (folder / "policy.safetensors").write_bytes(tensors(2 * HALF))
    entry("files", "policy.safetensors", to=hashlib.sha256(tensors(2 * HALF)).hexdigest())(folder)


def folder_for_document(folder: Path) -> None:
    (folder / "result.json").unlink()
    (folder / "result.json").mkdir()


RESULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (content(b""), "the document: Invalid JSON"),
    "cut short": (lambda f: content((f / "result.json").read_bytes()[:400])(f), "Invalid JSON"),
    "not text": (content(b'{"format": "\xff"}'), "Invalid JSON"),
    "a list": (content(b"[]"), "the document"),
    "nested without end": (content(b"[" * 200_000), "the document"),
    "a number without end": (content(b'{"veil": ' + b"9" * 200_000 + b"}"), "veil"),
    "another version": (entry("format", to="veil-result-7"), "format: Input should be 'veil-result-2'"),
    "no answer": (entry("answer", to=...), "answer: Field required"),
    "no status": (entry("answer", "status", to=...), "answer.status: Field required"),
    "bits as text": (entry("answer", "opacity", "bits", to="many"), "answer.opacity.bits"),
    "bits that are not a number": (entry("answer", "opacity", "bits", to=float("nan")), "answer.opacity.bits"),
    "states by halves": (entry("problem", "states", to=2.5), "problem.states"),
    "a method that is none": (entry("answer", "opacity", "method", to="guess"), "answer.opacity.method"),
    "a key too many": (entry("surprise", to=1), "surprise: Extra inputs"),
    "a file outside": (entry("files", "../rooms.toml", to="0" * 64), "files.../rooms.toml"),
    "a sum that is none": (entry("files", "history.csv", to="abc"), "files.history.csv"),
    "no policy named": (entry("files", "policy.safetensors", to=...), "does not list policy.safetensors"),
    "another policy": (content(GOOD, "policy.safetensors"), "policy.safetensors does not match its hash"),
    "no policy": (
        lambda f: (f / "policy.safetensors").unlink(),
        "is listed in result.json and cannot be read",
    ),
    "a policy that is none": (spoil_policy, "sums to 2"),
    "no document": (lambda f: (f / "result.json").unlink(), "no result can be read"),
    "a folder for a document": (
        folder_for_document,
        "no result can be read",
    ),
}


@pytest.mark.parametrize("case", RESULTS)
def test_results(case: str, solved: tuple[veil.Problem, veil.Solution]):
    write_result("bad", *solved, scenario=PROBLEM)
    change, words = RESULTS[case]
    change(Path("bad"))
    refused(command("measure", PROBLEM, "bad"), "bad", words)


def test_there_are_many_of_every_kind():
    kinds = {"scenario": SCENARIOS, "pomdp": POMDP, "drn": DRN_FILES, "npz": NPZ, "policy": POLICIES, "result": RESULTS}
    assert min(len(cases) for cases in kinds.values()) >= 20
    assert sum(len(cases) for cases in kinds.values()) >= 60


# The most that a file below 1 MiB can ask for, one of each kind.
COSTLY: dict[str, tuple[str, Callable[[], bytes], list[str]]] = {
    "scenario": (
        "bad.toml",
        lambda: ("horizon = 1\n[graph]\ninitial = 's0'\ntransitions = ["
                 + "".join(f"['s{i}','a','t{i}',0.5],\n" for i in range(36000)) + "]\nstates = ['s']\n").encode(),
        ["inspect", "bad.toml"],
    ),
    "pomdp": (
        "bad.pomdp",
        lambda: ("states: 20000\nactions: 1\nT: 0 : *\n" + "0.00005 " * 20000).encode(),
        ["convert", "bad.pomdp", "out.npz"],
    ),
    "drn": (
        "bad.drn",
        lambda: ("@type: MDP\n@parameters\n\n@reward_models\n\n@nr_states\n999999999\n@model\n"
                 + "".join(f"state {i}\n\t0 : 1\n" for i in range(50_000))).encode(),
        ["convert", "bad.drn", "out.npz"],
    ),
    "npz": ("bad.npz", NPZ["zeros without end"][0], ["convert", "bad.npz", "out.pomdp"]),
    "policy": ("bad.safetensors", lambda: POLICIES["a table of a terabyte"][0], ["measure", PROBLEM, "bad.safetensors"]),
    "result": ("result.json", lambda: b'{"x": ' * 170_000, ["measure", PROBLEM, "."]),
}  # fmt: skip


def spent(arguments: list[str]) -> tuple[Done, float, float]:
    """A command in a process of its own: how it ended, its seconds of processor time, its peak memory in MiB."""
    words = [sys.executable, "-m", "veil", *arguments]
    code, out, err, seconds, mebibytes = run_small(words, data_limit=512 * 2**20)
    return Done(code, "", out + err), seconds, mebibytes


@pytest.fixture(scope="module")
def start_up(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Seconds that a command takes which has nothing to read."""
    with contextlib.chdir(tmp_path_factory.mktemp("nothing")):
        return min(spent(["inspect", "missing.toml"])[1] for _ in range(2))


@pytest.mark.parametrize("kind", COSTLY)
def test_even_the_costly_ones_cost_little(kind: str, start_up: float):
    name, make, arguments = COSTLY[kind]
    data = make()
    assert len(data) < 2**20
    put(name, data)
    done, seconds, mebibytes = spent(arguments)
    refused(done, "bad" if name.startswith("bad") else name)
    assert mebibytes < 512
    # Starting takes about 0.4 s on a machine that has nothing else to do: the work itself is then below a second.
    assert seconds < 3.5 * start_up
