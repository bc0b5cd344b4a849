"""Fuzzing of all readers: mutated files are read or refused with `VeilError`; nothing else may escape, no warning either.

`python -m tests.formats.fuzz 200000 --seed 0 [--jobs 2] [--kind pomdp]` tries that many inputs. Input number i of a seed
is always the same, so `--seed S --only i` repeats a failure. Failures are saved in `out/fuzz`, one for each place in the
code, and make the exit code 1.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.formats import fuzz_files, fuzz_scenario, fuzz_texts
from veil.common.errors import VeilError
from veil.formats.arrays.files import from_arrays, load_sparse
from veil.formats.drn.files import from_drn
from veil.formats.policies.files import load_policy
from veil.formats.pomdp.files import from_pomdp
from veil.formats.results.folder import read_result
from veil.formats.scenario.load import load_scenario

OUT = Path("out") / "fuzz"
MOST_MEMORY = 4 * 2**30  # of address space, most of which the interpreter and its libraries only reserve
SLOW = 1.0  # seconds of its own that one input may take
_EVERY = 5000


@dataclass(frozen=True)
class Kind:
    """One kind of file: its name as a file, how an input is made, and how it is read."""

    name: str
    make: Callable[[random.Random], bytes]
    read: Callable[[Path], object]


KINDS = {
    "scenario": Kind("fuzz.toml", fuzz_scenario.scenario, load_scenario),
    "pomdp": Kind("fuzz.pomdp", fuzz_texts.pomdp, from_pomdp),
    "drn": Kind("fuzz.drn", fuzz_texts.drn, lambda path: from_drn(path, reward_model="steps")),
    "npz": Kind("fuzz.npz", fuzz_files.arrays, from_arrays),
    "sparse": Kind("sparse.npz", fuzz_files.matrix, load_sparse),
    "policy": Kind("fuzz.safetensors", fuzz_files.policy, load_policy),
    "policy-json": Kind("fuzz.json", fuzz_files.policy_json, load_policy),
    "policy-csv": Kind("fuzz.csv", fuzz_files.policy_csv, load_policy),
    "result": Kind("result.json", fuzz_files.result, lambda path: read_result(path, check_files=False)),
}


@dataclass
class Outcome:
    """What a run of inputs led to: how many of each kind were read and refused, the slowest, and what escaped."""

    read: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str, int] = (0.0, "none", -1)
    slow: int = 0
    failures: dict[str, tuple[str, int, str, bytes]] = field(default_factory=dict)

    def add(self, other: "Outcome") -> None:
        """Take in the outcome of another process."""
        self.read += other.read
        self.refused += other.refused
        self.slowest = max(self.slowest, other.slowest)
        self.slow += other.slow
        self.failures = other.failures | self.failures

    def summary(self) -> str:
        """The outcome in a few lines."""
        tried = sum(self.read.values()) + sum(self.refused.values())
        seconds, kind, number = self.slowest
        lines = [f"{tried:,} inputs came to a regular end: {sum(self.read.values()):,} read, the others refused"]
        lines += [f"  {kind:<9} {self.read[kind]:,} read, {self.refused[kind]:,} refused" for kind in KINDS]
        lines.append(f"slowest: {seconds:.2f} s, {kind} input {number}; {self.slow} inputs took more than {SLOW:g} s")
        for where, (name, at, text, _) in self.failures.items():
            lines.append(f"ESCAPED from {name} input {at}, {where}:\n{text}")
        return "\n".join(lines)


def data_of(seed: int, number: int, kinds: list[str]) -> tuple[str, bytes]:
    """Input `number` of a seed: its kind and its bytes."""
    rng = random.Random(f"{seed}:{number}")
    name = kinds[number % len(kinds)]
    return name, KINDS[name].make(rng)


def run(
    numbers: Iterable[int], seed: int, kinds: list[str], tell: Callable[[str], None] = lambda text: None
) -> Outcome:
    """Try the inputs of these numbers, one after the other, in a folder of their own."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        fuzz_scenario.put_model(Path(folder))
        for count, number in enumerate(numbers, 1):
            name, data = data_of(seed, number, kinds)
            path = Path(folder) / KINDS[name].name
            path.write_bytes(data)
            begin = time.process_time()
            try:
                KINDS[name].read(path)
                outcome.read[name] += 1
            except VeilError:
                outcome.refused[name] += 1
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
                outcome.failures.setdefault(where, (name, number, traceback.format_exc(), data))
            spent = time.process_time() - begin
            outcome.slow += spent > SLOW
            outcome.slowest = max(outcome.slowest, (spent, name, number))
            if count % _EVERY == 0:
                tell(f"{count:,} tried, {len(outcome.failures)} places where something escaped")
    return outcome


def _show(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def _part(arguments: tuple[int, int, int, int, list[str]]) -> Outcome:
    first, count, step, seed, kinds = arguments
    return run(range(first, count, step), seed, kinds, _show)


def main() -> int:
    """Run from the command line; the exit code is 1 where something escaped."""
    parser = argparse.ArgumentParser(description="Fuzz all readers of veil.")
    parser.add_argument("count", type=int, nargs="?", default=10_000, help="how many inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--kind", choices=list(KINDS), action="append", help="only this kind of file; may be repeated")
    parser.add_argument("--only", type=int, help="try this one input and show what escapes")
    given = parser.parse_args()
    kinds = given.kind or list(KINDS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    if given.only is not None:
        name, data = data_of(given.seed, given.only, kinds)
        print(f"{name}, {len(data)} bytes:\n{data[:3000]!r}")
        outcome = run([given.only], given.seed, kinds)
    else:
        parts = [(first, given.count, given.jobs, given.seed, kinds) for first in range(given.jobs)]
        outcome = Outcome()
        if given.jobs == 1:
            outcome = _part(parts[0])
        else:
            with ProcessPoolExecutor(given.jobs) as pool:
                for part in pool.map(_part, parts):
                    outcome.add(part)
    print(outcome.summary())
    for name, number, text, data in outcome.failures.values():
        OUT.mkdir(parents=True, exist_ok=True)
        (OUT / f"{given.seed}-{number}-{KINDS[name].name}").write_bytes(data)
        (OUT / f"{given.seed}-{number}.txt").write_text(text, encoding="utf-8")
    return int(bool(outcome.failures))


if __name__ == "__main__":
    sys.exit(main())
