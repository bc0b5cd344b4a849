"""How strong the tests of a room are: small seeded changes of its code, each of which the room's tests should notice.

`python -m tests.mutants --room proof --count 60 --seed 0` copies `src` to a temporary folder, changes one place of one module
there, and runs the room's tests on that copy, quickest files first. A change that no test notices is printed as a survivor:
either a test is missing, or the change is equivalent (the program does the same). The working tree is never touched.
"""

import argparse
import ast
import compileall
import copy
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


@dataclass(frozen=True)
class Mutant:
    """A module with one change: its path below `src`, the line, the change in words, and the whole text."""

    path: Path
    line: int
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


def places(parent: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Each node below one as (parent, field, index in it, node), without annotations and the texts of messages."""
    for name, value in ast.iter_fields(parent):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr):
                yield parent, name, index, node
                yield from places(node)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a module."""
    tree = ast.parse(path.read_text("utf-8"))
    for parent, name, index, node in list(places(tree)):
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
            yield Mutant(path.relative_to(ROOT / "src"), line, f"{before[:90]}  ->  {after[:90]}", text)


def run(source: Path, files: list[Path], limit: float) -> tuple[bool, float]:
    """Whether the tests of some files pass on a copy of the sources within a time limit, and the seconds they took."""
    variables = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    variables |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow"]
    begun = time.monotonic()
    child = subprocess.Popen(
        [*command, *map(str, files)], cwd=ROOT, env=os.environ | variables, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        passed = child.wait(limit) == 0
    except subprocess.TimeoutExpired:
        passed = False
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # with the processes that a test started
            child.wait()
    return passed, time.monotonic() - begun


def quick_files(source: Path, room: str, longest: float) -> tuple[list[Path], float]:
    """The test files of a room that pass within a time on the unchanged sources, quickest first, and their total time."""
    taken: dict[Path, float] = {}
    for file in sorted((ROOT / "tests" / room).rglob("test_*.py")):
        passed, seconds = run(source, [file], longest)
        words = f"{seconds:.1f} s" if passed else "left out: it fails or takes too long"
        print(f"{file.relative_to(ROOT)}: {words}", flush=True)
        if passed:
            taken[file] = seconds
    if not taken:
        sys.exit(f"no test file of {room} passes within {longest} s: give a larger --file-limit")
    return sorted(taken, key=lambda file: taken[file]), sum(taken.values())


def noticed(source: Path, mutant: Mutant, files: list[Path], limit: float) -> bool:
    """Whether the tests fail, or do not end, with a mutant in the place of its module."""
    target = source / mutant.path
    content, times = target.read_bytes(), (target.stat().st_atime_ns, target.stat().st_mtime_ns)
    target.write_text(mutant.text, "utf-8")
    os.utime(target, (0, 0))  # not that of the module compiled beside it, which would be run instead
    try:
        return not run(source, files, limit)[0]
    finally:
        target.write_bytes(content)
        os.utime(target, ns=times)


def main() -> None:
    parser = argparse.ArgumentParser(description="Change single places of a room's code: do its tests notice?")
    parser.add_argument("--room", default="proof", help="folder of src/veil and of tests (default: proof)")
    parser.add_argument("--modules", nargs="*", help="only these modules of the room, as: verify backward")
    parser.add_argument("--count", type=int, default=60, help="mutants drawn at random (default: 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30.0, help="no mutant is begun after this time (default: 30)")
    parser.add_argument("--file-limit", type=float, default=30.0, help="test files that take longer are left out (s)")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the copy and the tests under way go too
    deadline = time.monotonic() + 60 * given.minutes
    modules = sorted((ROOT / "src" / "veil" / given.room).rglob("*.py"))
    wanted = [path for path in modules if given.modules is None or path.stem in given.modules]
    drawn = [mutant for path in wanted for mutant in mutants_of(path)]
    print(f"{len(drawn)} possible mutants in {len(wanted)} modules of {given.room}")
    random.Random(given.seed).shuffle(drawn)
    with tempfile.TemporaryDirectory(prefix="veil-mutants-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        compileall.compile_dir(source, quiet=2)
        files, seconds = quick_files(source, given.room, given.file_limit)
        tried, survivors = 0, []
        for mutant in drawn[: given.count]:
            if time.monotonic() > deadline:
                print(f"stopped after {given.minutes:g} minutes")
                break
            found, tried = noticed(source, mutant, files, 3 * seconds + 10), tried + 1
            if not found:
                survivors.append(mutant)
            print(f"{'killed' if found else 'SURVIVED'}  {mutant.path}:{mutant.line}  {mutant.change}", flush=True)
    share = (tried - len(survivors)) / max(tried, 1)
    print(f"\n{given.room}: {tried - len(survivors)} of {tried} mutants killed, {share:.0%} (seed {given.seed})")
    for mutant in survivors:
        print(f"  survived: {mutant.path}:{mutant.line}  {mutant.change}")


if __name__ == "__main__":
    main()
