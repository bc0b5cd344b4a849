"""How strong the tests of a room are: small seeded changes of its code, each of which the room's tests should notice.

`python -m tests.mutants --room proof --count 60 --seed 0` copies `src` to a temporary folder, changes one place of one module
there, and runs on that copy the tests of the room that run the changed line, quickest first. A change that no test notices is
printed as a survivor: either a test is missing, or the change is equivalent (the program does the same). Which lines each test
runs is found once and kept in `out/mutants`. The working tree is otherwise not touched.
"""

import argparse
import ast
import compileall
import copy
import hashlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "all": "any", "any": "all"}
CHECKS = ("require", "_require", "check")  # calls whose only effect is to raise
# Seconds of tests, as traced, that run the changed line: nearly every change is noticed in the first of them.
_PICKED_SECONDS = 60.0
_NORMAL_95 = 1.959964  # quantile of the normal distribution, for the interval of the score


@dataclass(frozen=True)
class Mutant:
    """A module with one change: its path below `src`, its lines, the change in words, and the whole text.

    `lines` are those of the statement up to the change, and all of the module where the change is outside of functions.
    """

    path: Path
    line: int
    lines: range
    change: str
    text: str


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may stand in the place of one."""
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            for other in COMPARISONS[type(op)]:
                changed = copy.deepcopy(node)
                changed.ops[place] = other()
                yield changed
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        changed = copy.deepcopy(node)
        changed.op = OPERATORS[type(node.op)]()
        yield changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield from (ast.Constant(node.value + step) for step in (1, -1))
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield ast.Name(NAMES[node.id], node.ctx)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield ast.Attribute(node.value, NAMES[node.attr], node.ctx)
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and called(node.value) in CHECKS):
        yield ast.Pass()


def called(node: ast.AST) -> str:
    """The name of the function that an expression calls, empty where it calls none."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def places(parent: ast.AST, lines: range) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, range]]:
    """Each node below one as (parent, field, index in it, node, lines), without annotations and the texts of messages."""
    for name, value in ast.iter_fields(parent):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        inside = isinstance(parent, ast.FunctionDef) and name == "body"
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr):
                local = inside or lines.start > 0
                begin = node.lineno if local and isinstance(node, ast.stmt) else lines.start
                within = range(begin, max(begin, getattr(node, "end_lineno", begin)) + 1) if local else lines
                yield parent, name, index, node, within
                yield from places(node, within)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a module."""
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    for parent, name, index, node, lines in list(places(tree, range(source.count("\n") + 1))):
        for other in changes(node):
            before, after = (" ".join(ast.unparse(one).split()) for one in (node, other))
            field = getattr(parent, name)
            if index is None:
                setattr(parent, name, other)
            else:
                field[index] = other
            text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            if index is None:
                setattr(parent, name, node)
            else:
                field[index] = node
            line = getattr(node, "lineno", 0)
            yield Mutant(path.relative_to(ROOT / "src"), line, lines, f"{before[:90]}  ->  {after[:90]}", text)


@dataclass(frozen=True)
class Traced:
    """A test of the room: its name, the seconds it took, and the lines of each module that it ran."""

    name: str
    seconds: float
    lines: dict[str, frozenset[int]]


def run(source: Path, arguments: list[str], limit: float, **variables: str) -> int | None:
    """The exit status of pytest on a copy of the sources; None where it did not end within the time limit."""
    variables |= {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    variables |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", *arguments]
    child = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | variables, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return child.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # with the processes that a test started
            child.wait()


def traced(source: Path, room: str, stems: list[str] | None, longest: float, limit: float) -> list[Traced]:
    """The tests of a room that pass on the unchanged sources and take at most `longest` seconds, quickest first.

    They are traced once for each state of the sources and the room's tests, within `limit` seconds; `stems`: only these files.
    """
    tests, code = ROOT / "tests" / room, ROOT / "src" / "veil"
    files = [str(path) for path in sorted(tests.rglob("test_*.py")) if stems is None or path.stem in stems]
    content = b"".join(path.read_bytes() for folder in (code, tests) for path in sorted(folder.rglob("*.py")))
    content += " ".join(files).encode()
    kept = ROOT / "out" / "mutants" / f"{room}-{hashlib.sha256(content).hexdigest()[:16]}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        place = {"VEIL_TRACED_ROOM": f"{source / 'veil' / room}{os.sep}", "VEIL_TRACED_FILE": str(kept)}
        run(source, ["-p", "tests.traced", *files], limit, **place)
        if not kept.exists():
            sys.exit(f"the tests of {room} did not end within {limit:.0f} s: give more --minutes")
    found = json.loads(kept.read_text("utf-8")).items()
    left_out = [name for name, (seconds, passed, _) in found if not passed or seconds > longest]
    print(
        f"{len(found)} tests take {sum(entry[0] for _, entry in found):.0f} s, traced; left out: {left_out or 'none'}"
    )
    found_tests = [
        Traced(name, seconds, {module: frozenset(numbers) for module, numbers in lines.items()})
        for name, (seconds, _, lines) in found
        if name not in left_out
    ]
    return sorted(found_tests, key=lambda test: test.seconds)


def picked(mutant: Mutant, tests: list[Traced]) -> list[Traced]:
    """The tests that run the changed line, quickest first, until they take long enough; all where none is known to."""
    module, taken, found = str(Path(*mutant.path.parts[2:])), 0.0, []
    for test in tests:
        if not test.lines.get(module, frozenset()).isdisjoint(mutant.lines) and taken < _PICKED_SECONDS:
            found.append(test)
            taken += test.seconds
    return found or tests


def noticed(source: Path, mutant: Mutant, tests: list[Traced]) -> bool:
    """Whether the tests fail, or do not end, with a mutant in the place of its module."""
    target = source / mutant.path
    content, times = target.read_bytes(), (target.stat().st_atime_ns, target.stat().st_mtime_ns)
    target.write_text(mutant.text, "utf-8")
    os.utime(target, (0, 0))  # not that of the module compiled beside it, which would be run instead
    names = source.parent / "tests"
    try:
        chosen = picked(mutant, tests)
        names.write_text("".join(f"{test.name}\n" for test in chosen), "utf-8")
        return run(source, ["-x", f"@{names}"], 3 * sum(test.seconds for test in chosen) + 60) != 0
    finally:
        target.write_bytes(content)
        os.utime(target, ns=times)


def score(killed: int, tried: int) -> str:
    """The share of the mutants that were noticed, with Wilson's interval at 95% for that of all mutants."""
    share, spread = killed / max(tried, 1), _NORMAL_95**2 / max(tried, 1)
    middle = (share + spread / 2) / (1 + spread)
    half = _NORMAL_95 * math.sqrt(share * (1 - share) / max(tried, 1) + spread / (4 * max(tried, 1))) / (1 + spread)
    return f"{killed} of {tried} mutants killed, {share:.1%} (95%: {middle - half:.1%} to {middle + half:.1%})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Change single places of a room's code: do its tests notice?")
    parser.add_argument("--room", default="proof", help="folder of src/veil and of tests (default: proof)")
    parser.add_argument("--modules", nargs="*", help="only these modules of the room, as: verify backward")
    parser.add_argument(
        "--tests", nargs="*", help="only these files of the room's tests, as: test_verify (a lower score)"
    )
    parser.add_argument("--lines", nargs="*", help="only these lines, as: verify:120 backward:33 (again, survivors)")
    parser.add_argument("--count", type=int, default=60, help="mutants drawn at random (default: 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30.0, help="no mutant is begun after this time (default: 30)")
    parser.add_argument("--test-limit", type=float, default=60.0, help="tests that take longer are left out (s)")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the copy and the tests under way go too
    deadline = time.monotonic() + 60 * given.minutes
    modules = sorted((ROOT / "src" / "veil" / given.room).rglob("*.py"))
    wanted = [path for path in modules if given.modules is None or path.stem in given.modules]
    drawn = [mutant for path in wanted for mutant in mutants_of(path)]
    if given.lines is not None:
        drawn = [mutant for mutant in drawn if f"{mutant.path.stem}:{mutant.line}" in given.lines]
    print(f"{len(drawn)} possible mutants in {len(wanted)} modules of {given.room}")
    random.Random(given.seed).shuffle(drawn)
    with tempfile.TemporaryDirectory(prefix="veil-mutants-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        compileall.compile_dir(source, quiet=2)
        tests = traced(source, given.room, given.tests, given.test_limit, 60 * given.minutes)
        tried, survivors = 0, []
        for mutant in drawn[: given.count]:
            if time.monotonic() > deadline:
                print(f"stopped after {given.minutes:g} minutes")
                break
            found, tried = noticed(source, mutant, tests), tried + 1
            if not found:
                survivors.append(mutant)
            print(f"{'killed' if found else 'SURVIVED'}  {mutant.path}:{mutant.line}  {mutant.change}", flush=True)
    print(f"\n{given.room}: {score(tried - len(survivors), tried)}, seed {given.seed}")
    for mutant in survivors:
        print(f"  survived: {mutant.path}:{mutant.line}  {mutant.change}")


if __name__ == "__main__":
    main()
