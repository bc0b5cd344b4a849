"""How strong the tests of a room are: mutmut changes its code in a copy of the tree, and the room's tests should notice.

`python -m tests.mutation --room proof --count 100 --seed 0` (`make mutants ARGS=…`) copies the tracked files to
`out/mutants/ROOM`, lets mutmut make all mutants of the room and find which tests reach which function, draws `count` of the
mutants with the seed, runs mutmut on these, and prints the share that the tests notice with its 95% interval, and every
survivor with its change. Changes of nothing but text are not drawn: the tests do not hold the wording of messages. The
quickest tests run first, and each mutant gets the first `--seconds` of them, so that the share is a lower bound. (This
module is also the pytest plugin that chooses them.)

A mutant in a function that no test reaches counts as not noticed. Survivors are read by a person: a missing test of what
users get, or a change that users cannot notice.
"""

import argparse
import ast
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = {
    "proof": ["tests/proof", "--ignore=tests/proof/test_trusted_base.py"],  # which reads the source
    "engine": ["tests/engine", "tests/laws"],
    "measure": ["tests/measure", "tests/laws"],
    "game": ["tests/game"],
    "planning": ["tests/planning"],
    "tradeoffs": ["tests/tradeoffs"],
    "querying": ["tests/querying"],
}
SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["src/veil/{room}/*"]
also_copy = {copied}
pytest_add_cli_args = ["-m", "not slow", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "tests.mutation"]
pytest_add_cli_args_test_selection = {tests}
timeout_multiplier = 3.0
timeout_constant = 10.0
"""
NOTICED = {"killed", "timeout", "suspicious", "segfault"}
STATUS = {0: "survived", 1: "killed", 3: "killed", 33: "no tests", 34: "skipped", 36: "timeout", 24: "timeout",
          152: "timeout", -24: "timeout", -9: "timeout", -11: "segfault", -15: "timeout"}  # fmt: skip
STATS, UNFIT = Path("mutmut-stats.json"), Path("unfit-tests.txt")  # in the mutated copy
SECONDS = "VEIL_MUTATION_SECONDS"
_NORMAL_95 = 1.959964  # quantile of the normal distribution, for the interval of the share


def main() -> int:
    """Draw mutants, run them, print the score and the survivors."""
    options = _options()
    folder = ROOT / "out" / "mutants" / options.room
    _copy_tree(folder, options.room, options.tests or TESTS.get(options.room, [f"tests/{options.room}"]))
    begin = time.monotonic()
    # Nothing matches this name: mutmut makes the mutants, finds which test reaches what, and stops.
    os.environ[SECONDS] = str(options.seconds)
    _mutmut(folder, ["run", "--max-children", str(options.jobs), "none"], None)
    names = sorted(name for _, found in _results(folder) for name in found)
    if not names:
        print((folder / "mutmut.log").read_text("utf-8")[-3000:])
        return 2
    unfit = folder / "mutants" / UNFIT
    if unfit.is_file():
        print("left out, since they fail on unchanged code in the copy:", *unfit.read_text("utf-8").split())
    drawn = _draw(folder, names, options.count, options.seed)
    print(f"{len(names)} mutants of {options.room}, {len(drawn)} drawn with seed {options.seed};", end=" ")
    print(f"made in {time.monotonic() - begin:.0f} s", flush=True)
    _mutmut(folder, ["run", "--max-children", str(options.jobs), *drawn], 60 * options.minutes)
    results = {name: code for _, found in _results(folder) for name, code in found.items()}
    codes = ((name, results[name]) for name in drawn)
    statuses = {name: STATUS.get(code, f"code {code}") for name, code in codes if code is not None}
    for name in sorted(name for name, status in statuses.items() if status not in NOTICED):
        print(f"\n{statuses[name]}: {_change(folder, name)}")
    noticed = sum(status in NOTICED for status in statuses.values())
    low, high = _interval(noticed, len(statuses))
    print(f"\n{dict(Counter(statuses.values()))} after {time.monotonic() - begin:.0f} s")
    print(f"{options.room}: {noticed} of {len(statuses)} noticed, {_percent(noticed / max(len(statuses), 1))}", end=" ")
    print(f"(95% interval {_percent(low)} to {_percent(high)})")
    if len(statuses) < len(drawn):
        print(f"{len(drawn) - len(statuses)} were not tried: the time was over (--minutes)")
    return 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Inside mutmut: keep the quickest tests, as long as their sum is within the limit; all while they are being timed."""
    if not STATS.is_file() or config.option.collectonly:  # mutmut asks for the names of all tests
        return
    took: dict[str, float] = json.loads(STATS.read_text("utf-8"))["duration_by_test"]
    unfit = set(UNFIT.read_text("utf-8").splitlines()) if UNFIT.is_file() else set[str]()
    order = sorted((item for item in items if item.nodeid not in unfit), key=lambda item: took.get(item.nodeid, 0.0))
    sums = itertools.accumulate(took.get(item.nodeid, 0.0) for item in order)
    kept = order[: max(1, sum(seconds <= float(os.environ[SECONDS]) for seconds in sums))]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Inside mutmut: a test that fails on the unchanged code, as one that reads the source may, is noted and left out."""
    report = yield
    if report.failed and not STATS.is_file():
        report.outcome = "passed"
        with UNFIT.open("a", encoding="utf-8") as file:
            file.write(f"{item.nodeid}\n")
    return report


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--room", default="proof", help="the folder of src/veil whose code is changed")
    parser.add_argument("--count", type=int, default=60, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--minutes", type=float, default=60, help="the most minutes for running the drawn mutants")
    parser.add_argument("--seconds", type=float, default=20, help="the most seconds of tests for each mutant")
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants run at once")
    parser.add_argument("--tests", nargs="*", help="other tests than those of the room")
    return parser.parse_args()


def _copy_tree(folder: Path, room: str, tests: list[str]) -> None:
    """A fresh copy of the tracked files with mutmut's settings; what the mutated copy needs is copied by mutmut again."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    copied = sorted(one.name for one in folder.iterdir() if one.name not in ("src", "tests", "pyproject.toml"))
    settings = folder / "pyproject.toml"
    text = SETTINGS.format(room=room, copied=json.dumps(copied), tests=json.dumps(tests))
    settings.write_text(settings.read_text("utf-8") + text, "utf-8")


def _mutmut(folder: Path, arguments: list[str], seconds: float | None) -> None:
    with (folder / "mutmut.log").open("a", encoding="utf-8") as log:
        command = [sys.executable, "-m", "mutmut", *arguments]
        try:
            subprocess.run(command, cwd=folder, stdout=log, stderr=log, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return


def _results(folder: Path) -> Iterator[tuple[Path, dict[str, int | None]]]:
    """Each mutated module with the exit code of the tests for each of its mutants, None where it was not tried."""
    for path in sorted((folder / "mutants" / "src").rglob("*.meta")):
        yield path, json.loads(path.read_text("utf-8"))["exit_code_by_key"]


def _draw(folder: Path, names: list[str], count: int, seed: int) -> list[str]:
    """`count` mutants at random, without those that change nothing but text."""
    order = random.Random(seed).sample(names, len(names))
    drawn: list[str] = []
    for name in order:
        if len(drawn) == count:
            break
        if not _is_text_only(folder, name):
            drawn.append(name)
    return drawn


def _function(folder: Path, name: str) -> tuple[Path, str, str]:
    """The file of a mutant, and its function before and after the change, as mutmut wrote them."""
    module, _, mangled = name.rpartition(".")
    path = folder / "mutants" / "src" / Path(*module.split(".")).with_suffix(".py")
    original = re.sub(r"__mutmut_\d+$", "__mutmut_orig", mangled)
    found = _functions(path)
    before, after = (re.sub(r"__mutmut_(\d+|orig)", "", ast.unparse(found[key])) for key in (original, mangled))
    return path, before, after


@cache
def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    """Every function of a mutated module by its name, which mutmut makes unique."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}


def _is_text_only(folder: Path, name: str) -> bool:
    _, before, after = _function(folder, name)
    return _without_text(before) == _without_text(after)


def _without_text(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def _change(folder: Path, name: str) -> str:
    path, before, after = _function(folder, name)
    old, new = before.splitlines(), after.splitlines()
    lines = [f"  - {a.strip()}\n  + {b.strip()}" for a, b in zip(old, new, strict=False) if a != b][:2]
    return f"{name} ({path.relative_to(folder / 'mutants')})\n" + "\n".join(lines)


def _interval(hits: int, tries: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    if not tries:
        return 0.0, 1.0
    share, weight = hits / tries, _NORMAL_95**2 / tries
    middle = (share + weight / 2) / (1 + weight)
    half = _NORMAL_95 * (share * (1 - share) / tries + weight / (4 * tries)) ** 0.5 / (1 + weight)
    return middle - half, middle + half


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


if __name__ == "__main__":
    sys.exit(main())
