"""Mutated binary files and documents: arrays, matrices, policies, results; each changed in its parts and in its bytes."""

# ruff: noqa: E501  (what is put in stands close together)

import io
import json
import random
import zipfile
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp

import veil
from tests.formats.fuzz_texts import mutated, spoiled
from veil.formats import gallery
from veil.formats.imported import Imported
from veil.formats.registry import find_format
from veil.formats.results.folder import write_result
from veil.formats.results.scenario import Origin
from veil.game.solve import solve_game

_HEADERS = (
    "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", "'descr'", "'<f8'", "'<i8'", "'|b1'", "'<U3'", "'|O'", "'>f8'",
    "'<f2'", "'<c16'", "'|S4'", "'<U0'", "'<f16'", "'<f0'", "'<i3'", "True", "False", "()", "(1,)", "(2, 2)", "(0,)", "(2, 0)",
    "(99999999999,)", "(-1,)", "(1, 1, 1, 1)", "'shape'", "'fortran_order'", "}", "{", "[", ",", "__import__('os')", "'<M8[ns]'",
)  # fmt: skip
_JSON = (
    "null", "true", "false", "0", "-1", "1e400", "-1e400", "NaN", "Infinity", "1.5", "[]", "{}", '""', '"x"', "[[]]", "[1, 2]", "{",
    "}", "[", "]", ",", ":", '"dtype"', '"shape"', '"data_offsets"', '"F64"', '"F32"', '"I64"', '"BOOL"', '"BF16"', '"F4"', "[0, 8]",
    "[2, 2]", "[0]", "[8, 0]", "99999999999999999999", '"__metadata__"', '"veil"', '"probabilities"', '"veil-policy-1 markov"',
    '"veil-policy-1 timed"', '"veil-policy-1 memory {}"', '"veil-policy-1 history {}"', '"\\ud800"', '"\\u0000"', '"../x"', '"inf"',
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 10**30, 0.5, -0.5, 1e308, float("inf"), float("-inf"), float("nan"), 10**400, "", "x", "inf", "-inf", "nan", [], {}, [1], [[]], {"x": 1}, "markov",
    "timed", "../../etc/passwd", "\x00", "\ud800", "a" * 300, ["|O", 1], ["<f8", 2, 2], ["<i8", 3], ["<f8", -1], ["<U9", 9**12],
)  # fmt: skip
_NUMBERS = (0, 1, -1, 0.5, 2, 1e308, -1e308, 1e-320, np.nan, np.inf, -np.inf, 2**31, 2**62, 7)
_TYPES = ("<f8", "<f4", "<i8", "<i4", "<u1", "|b1", "<U5", ">f8", "<f2", "<u8", "<c16", "<S3")


def arrays(rng: random.Random) -> bytes:
    """A mutated model in a `.npz` file."""
    return _archive(rng, dict(rng.choice(_array_seeds())))


def matrix(rng: random.Random) -> bytes:
    """A mutated matrix in the form of `scipy.sparse.save_npz`."""
    return _archive(rng, dict(rng.choice(_matrix_seeds())))


def policy(rng: random.Random) -> bytes:
    """A mutated policy: its header as a document and as text, its numbers, its bytes."""
    data = rng.choice(_policy_seeds())
    size = int.from_bytes(data[:8], "little")
    header, content = data[8 : 8 + size], data[8 + size :]
    way = rng.randrange(5)
    if way == 0:
        return spoiled(data, rng)
    if way == 1:
        header = _changed_text(rng, header.decode())
    elif way == 2:
        header = _dumped(_changed(rng, json.loads(header)))
    elif content:
        content = _with_numbers(rng, content)
    return len(header).to_bytes(8, "little") + header + content


def policy_json(rng: random.Random) -> bytes:
    """A policy as JSON with entries changed, or with its text changed."""
    return _document(rng, rng.choice(_policy_seeds(".json")))


def policy_csv(rng: random.Random) -> bytes:
    """A policy as CSV with its header or its lines changed."""
    text = rng.choice(_policy_seeds(".csv")).decode()
    comment, _, lines = text.partition("\n")
    if rng.random() < 0.5:
        header = _dumped(_changed(rng, json.loads(comment.removeprefix("#")))).decode("utf-8", "replace")
        return f"# {header}\n{lines}".encode("utf-8", "replace")
    return f"{comment}\n".encode() + _changed_text(rng, lines)


def result(rng: random.Random) -> bytes:
    """A mutated result document."""
    return _document(rng, rng.choice(_result_seeds()))


def _document(rng: random.Random, data: bytes) -> bytes:
    """A document changed entry by entry, as text or in its bytes; now and then it stays what it was."""
    way = rng.random()
    if way < 0.05:
        return data.replace(b"\n", b"")
    if way < 0.2:
        return spoiled(data, rng)
    return _changed_text(rng, data.decode()) if way < 0.4 else _dumped(_changed(rng, json.loads(data)))


@cache
def _array_seeds() -> list[dict[str, np.ndarray]]:
    found = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        for name in ("two-rooms", "courier-depots", "badge-doors"):
            problem = gallery.load(name)
            size = problem.num_states
            variables = {"x": np.arange(size), "name": np.array([f"n{i}" for i in range(size)])}
            Imported(problem.model, problem.observer, valuations=variables, labels={"l": np.arange(size) > 1}).save(
                path
            )
            with np.load(path) as loaded:
                found.append(dict(loaded))
        model = gallery.load("two-rooms").model
        dense = {"transitions": model.transitions, "rewards": model.rewards, "initial": model.initial}
    return [*found, dense]


@cache
def _matrix_seeds() -> list[dict[str, np.ndarray]]:
    found = []
    for kind in ("csr", "csc", "coo"):
        buffer = io.BytesIO()
        sp.save_npz(buffer, sp.csr_array(np.triu(np.full((4, 4), 0.25))).asformat(kind))
        with np.load(io.BytesIO(buffer.getvalue())) as loaded:
            found.append(dict(loaded))
    return found


@cache
def _policies() -> tuple[veil.Problem, list[veil.Policy]]:
    problem = gallery.load("two-rooms")
    problem = veil.Problem(problem.model, problem.observer, problem.secret, 2, agent_sees="state+observations")
    memories = [veil.ObservationMemory(1), veil.StateMemory(1), veil.Controller(2), veil.ZoneMemory(["vault"])]
    return problem, [
        veil.MarkovPolicy.uniform(problem),
        veil.TimedPolicy.uniform(problem),
        *(veil.MemoryPolicy.uniform(problem, memory) for memory in memories),
        solve_game(problem, gap=0.3).policy(),
    ]


@cache
def _policy_seeds(suffix: str = ".safetensors") -> list[bytes]:
    problem, made = _policies()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"policy{suffix}"
        write = find_format("write_policy", path).write_policy
        assert write is not None
        found = []
        for one in made:
            write(path, problem, one)
            found.append(path.read_bytes())
        return found


@cache
def _result_seeds() -> list[bytes]:
    found = []
    with TemporaryDirectory() as folder:
        for name in ("two-rooms", "network-probe"):
            problem = gallery.load(name)
            solution = veil.solve(problem, starts=1, iterations=2, certificate=False)
            write_result(Path(folder) / name, problem, solution, Origin(f"gallery:{name}"))
            document = json.loads((Path(folder) / name / "result.json").read_bytes())
            # Times differ from run to run, and so do the sums of files that hold them: the seeds must not.
            document["answer"]["seconds"] = 1.5
            document["files"] = dict.fromkeys(document["files"], "0" * 64)
            found.append(_dumped(document))
    return found


def _archive(rng: random.Random, parts: dict[str, Any]) -> bytes:
    """The arrays as a `.npz` file, with one to three of them changed, or the file's bytes."""
    members: dict[str, bytes] = {}
    for _ in range(rng.choice((1, 1, 2, 3))):
        key = rng.choice(list(parts) or ["rewards"])
        way = rng.randrange(8)
        if way == 0:
            parts.pop(key, None)
        elif way == 1:
            parts[rng.choice(("rewards", "initial", "variable:", "label:l", "emissions", "x/../y", "é"))] = parts.get(
                key, np.zeros(2)
            )
        elif way == 2:
            members[key] = _spoiled_member(rng, parts.get(key, np.zeros(2)))
        elif key in parts:
            parts[key] = _changed_array(rng, parts[key])
    buffer = io.BytesIO()
    method = rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2) if rng.random() < 0.1 else (8,))
    with zipfile.ZipFile(buffer, "w", method) as file:
        for key, array in parts.items():
            file.writestr(f"{key}.npy", members.get(key) or _member(array))
            if rng.random() < 0.01:
                file.writestr(f"{key}_.npy", _member(array))
    return spoiled(buffer.getvalue(), rng) if rng.random() < 0.15 else buffer.getvalue()


def _member(array: np.ndarray) -> bytes:
    member = io.BytesIO()
    np.lib.format.write_array(member, array, allow_pickle=True)
    return member.getvalue()


def _spoiled_member(rng: random.Random, array: np.ndarray) -> bytes:
    """An array whose header was changed as a text."""
    data = _member(array)
    size = int.from_bytes(data[8:10], "little")
    text = data[10 : 10 + size].decode("latin-1")
    header = mutated(text, rng, text, _HEADERS).encode("latin-1", "replace")
    return data[:8] + len(header).to_bytes(2, "little") + header + data[10 + size :]


def _changed_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    way = rng.randrange(6)
    try:
        if way == 0:
            return array.astype(rng.choice(_TYPES))
        if way == 1:
            return np.array(rng.choice(_VALUES), dtype=object) if rng.random() < 0.1 else np.array(rng.choice(_NUMBERS))
        if way == 2:
            return array.reshape(rng.choice(((-1,), (1, -1), (-1, 1), (1, 1, -1), (1, 1, 1, -1))))
        if way == 3:
            return np.concatenate([array, array]) if array.ndim else array
        if way == 4:
            return array[: rng.randrange(len(array) + 1)] if array.ndim else array
        changed = np.array(array)
        if changed.size:
            changed.flat[rng.randrange(changed.size)] = rng.choice(_NUMBERS)
        return changed
    except (ValueError, OverflowError, TypeError, RuntimeWarning):
        return array


def _changed_text(rng: random.Random, text: str) -> bytes:
    """A text with one to four changes."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = mutated(text, rng, text, _JSON)
    return text.encode("utf-8", "replace")


def _changed(rng: random.Random, document: Any) -> Any:
    """A document with one to four entries changed, dropped or added, somewhere."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        holder = document
        while isinstance(holder, (dict, list)) and holder:
            key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
            inner = holder[key]
            if isinstance(inner, (dict, list)) and inner and rng.random() < 0.7:
                holder = inner
                continue
            way = rng.randrange(4)
            if way == 0:
                del holder[key]
            elif way == 1 and isinstance(holder, dict):
                holder[rng.choice(("x", "", "veil", "format", "files", "\x00"))] = deepcopy(rng.choice(_VALUES))
            else:
                holder[key] = deepcopy(rng.choice(_VALUES))
            break
    return document


def _with_numbers(rng: random.Random, content: bytes) -> bytes:
    numbers = np.frombuffer(content[: len(content) // 8 * 8], dtype="<f8").copy()
    if len(numbers):
        numbers[rng.randrange(len(numbers))] = rng.choice(_NUMBERS)
    return numbers.tobytes() + content[len(content) // 8 * 8 :]


def _dumped(document: Any) -> bytes:
    return json.dumps(document).encode("utf-8", "surrogatepass")
