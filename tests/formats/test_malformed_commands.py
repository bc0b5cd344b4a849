"""Malformed policies and results; and files of each format through the command line: exit code 2, the place, no traceback."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import veil
from tests.cases import each
from tests.cli.commands import Done
from tests.cli.commands import veil as command
from tests.formats.scenarios import GRID
from tests.formats.test_malformed import DRN_FILES, NPZ
from tests.small_parent import run_small
from veil.formats import gallery
from veil.formats.results.folder import read_result, write_result
from veil.formats.results.scenario import Origin

PROBLEM = "gallery:two-rooms"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(done: Done, *words: str) -> None:
    """The command ended as it must for a malformed file, and left nothing behind."""
    assert done.code == 2, done.err
    assert "Traceback" not in done.err
    assert not [piece for piece in words if piece not in done.err], done.err
    assert not [path for path in os.listdir() if path.startswith((".", "out"))]


def put(name: str, content: str | bytes) -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


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


def numbers(kind: str) -> bytes:
    """A policy with numbers of a type of two bytes."""
    about = {"dtype": kind, "shape": [2, 2], "data_offsets": [0, 8]}
    return header({"__metadata__": {"veil": "veil-policy-1 markov"}, "probabilities": about}, b"\x00\x3f" * 4)


POLICIES: dict[str, tuple[bytes, str]] = {
    "text": (b"hello, I am a policy", "cannot be read as a policy"),
    "cut short": (GOOD[:-9], "cannot be read as a policy"),
    "a header of a terabyte": ((2**40).to_bytes(8, "little") + GOOD[8:], "cannot be read as a policy"),
    "a table of a terabyte": (
        header({"probabilities": {"dtype": "F64", "shape": [2**19, 2**18], "data_offsets": [0, 2**40]}}),
        "cannot be read as a policy",
    ),
    "weights of a network": (save({"layer.weight": HALF}), "not a policy of veil"),
    "another version": (tensors(HALF, form="veil-policy-9"), "expected 'veil-policy-1'"),
    "an unknown kind": (tensors(HALF, "psychic"), "unknown kind 'psychic'"),
    "nothing": (b"", "cannot be read as a policy"),
    "an array of numpy": (b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'shape': (2, 2), }", "cannot be read as a policy"),
    "no metadata": (save({"probabilities": HALF}), "not a policy of veil"),
    "numbers of an unknown kind": (numbers("X16"), "bad.safetensors"),
    "numbers that NumPy reads only with other packages": (numbers("BF16"), "numbers of type BF16, expected one of F64"),
    "a number that is none": (tensors([[np.nan, 1.0], [0.5, 0.5]]), "entry (state 0, action 0) is nan"),
    "two axes in a policy of three": (tensors(HALF, "timed"), "expected (time, state, action)"),
    "rows that sum to two": (tensors(2 * HALF), "sums to 2"),
    "three axes in a policy of two": (tensors(np.full((1, 2, 2), 0.5)), "shape (1, 2, 2)"),
    "of another problem": (tensors(np.full((3, 2), 0.5)), "3"),
    "of another horizon": (tensors(np.full((9, 2, 2), 0.5), "timed"), "9"),
    "a memory that is none": (tensors(HALF, 'memory {"kind": "elephant"}'), "bad.safetensors"),
    "a history of nothing": (history(arrays=[]), "cannot be read as a history policy"),
    "a history of objects": (history(arrays=[["|O", 1]]), "cannot be read as a history policy"),
    "a history of many bytes": (history(arrays=[["<i8", 2**62, 4]]), "cannot be read as a history policy"),
}


def test_policies():
    problem = gallery.load("two-rooms")

    def check(case: tuple[bytes, str]) -> None:
        put("bad.safetensors", case[0])
        with pytest.raises(veil.VeilError) as caught:
            veil.opacity(problem, veil.load_policy("bad.safetensors", problem))
        assert case[1] in str(caught.value), caught.value

    each(POLICIES, check)


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
    "cut short": (lambda f: content((f / "result.json").read_bytes()[:400])(f), "Invalid JSON"),
    "nested without end": (content(b"[" * 200_000), "the document"),
    "another version": (entry("format", to="veil-result-7"), "format: Input should be 'veil-result-3'"),
    "no answer": (entry("answer", to=...), "answer: Field required"),
    "bits as text": (entry("answer", "opacity", "bits", to="many"), "answer.opacity.bits"),
    "a file that is not there": (entry("files", "absent.bin", to="0" * 64), "absent.bin is listed in result.json"),
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


def test_results(solved: tuple[veil.Problem, veil.Solution]):
    def check(case: tuple[Callable[[Path], object], str]) -> None:
        shutil.rmtree("bad", ignore_errors=True)
        write_result("bad", *solved, Origin(PROBLEM))
        case[0](Path("bad"))
        with pytest.raises(veil.VeilError, match="bad") as caught:
            read_result("bad").policy()
        assert case[1] in str(caught.value), caught.value

    each(RESULTS, check)


def test_commands(solved: tuple[veil.Problem, veil.Solution]):
    """A file of each kind through a command that reads it: what else is wrong in a file is told in the same words."""
    write_result("bad", *solved, Origin(PROBLEM))
    entry("answer", "opacity", "bits", to="many")(Path("bad"))
    put("bad.toml", GRID.replace("slip = 0.1", "slipp = 0.1"))
    put("bad.safetensors", POLICIES["rows that sum to two"][0])
    put("bad.drn", DRN_FILES["a row of 0.95"][0])
    put("bad.csv", "run,time,state\n0,1,a\n")
    cases = {
        "scenario": ("solve bad.toml -o out", ("bad.toml", "line 11, [grid] slipp", "did you mean 'slip'?")),
        "model": ("convert bad.drn out.npz", ("bad.drn, line 18:", "sums to 0.95")),
        "policy": (f"measure {PROBLEM} bad.safetensors", ("bad.safetensors", "sums to 2")),
        "result": ("report bad -o out.html", ("bad", "answer.opacity.bits")),
        "logs": ("fit bad.csv -o out", ("bad.csv, line 2", "expected 0")),
        "changes": (f"solve {PROBLEM} --set horizon=-1 -o out", ("horizon", "-1")),
    }
    each(cases, lambda case: refused(command(*case[0].split()), *case[1]))


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


@pytest.mark.parametrize(
    "kind", [one if one in ("scenario", "policy") else pytest.param(one, marks=pytest.mark.slow) for one in COSTLY]
)
def test_even_the_costly_ones_need_little_memory(kind: str):
    name, make, arguments = COSTLY[kind]
    data = make()
    assert len(data) < 2**20
    put(name, data)
    words = [sys.executable, "-m", "veil", *arguments]
    code, out, err, _, mebibytes = run_small(words, data_limit=512 * 2**20)
    refused(Done(code, "", out + err), "bad" if name.startswith("bad") else name)
    assert mebibytes < 512
