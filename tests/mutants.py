"""How strong the tests of a room are: small seeded changes of its code, each of which the room's tests should notice.

`python -m tests.mutants --room proof --count 60 --seed 0` collects the room's tests once. For each change of one place of one
module, a copy of that process, with the changed function in the place of the function, runs the tests that run the changed
line, quickest first. A change that no test notices is printed as a survivor: either a test is missing, or the change is
equivalent (the program does the same). Which lines each test runs is found once and kept in `out/mutants`. No file of the
working tree is changed.

Changes that no test is expected to notice are explained one by one in `tests/explained/ROOM.toml`; they are not tried and not
counted (`--explained` tries them alone). There is a table for each module; its keys are "function: before  ->  after", with
" #2" for the second of the same words in a function, or the name of a constant for all of its changes. The reason begins
with its kind:

- `same`: the program does the same in every case that can occur;
- `tuning`: sizes of blocks, shares of time, forecasts, when to stop or where to start a search: what is computed is as true as
  before, and a test would only repeat the number;
- `rounding`: an allowance for rounding that is larger than needed, or another order of sums: results differ by rounding
  alone, and bounds stay bounds.
"""

import argparse
import ast
import copy
import gc
import hashlib
import itertools
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.traced import TracedTest, Tracing

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
PYTEST = ("-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow")
CHECKS = ("require", "_require", "check")  # calls whose only effect is to raise
KINDS = ("same", "tuning", "rounding")  # of explanations
_OPTIMISED = 1  # CO_OPTIMIZED: the flag of the code of functions, which that of classes lacks
_MORE_SECONDS = 15.0  # of the processor, after three times what the tests took: a mutant that takes longer is noticed
_WAITING = 10.0  # times as long on the wall, for machines that do other work too
_NORMAL_95 = 1.959964  # quantile of the normal distribution, for the interval of the score


@dataclass(frozen=True)
class Mutant:
    """A module with one change: its path below `src`, its line, the change in words, and its number among those of the module.

    `lines` are those of the statement up to the change; None where the change is outside of functions. `place` is the name of
    the function with the change, or of the constant, and `key` the name of the change in the module.
    """

    path: Path
    line: int
    lines: range | None
    place: str
    key: str
    change: str
    number: int

    @property
    def words(self) -> str:
        """Where it is and what it changes."""
        return f"{self.path}:{self.line}  {self.change}"

    @property
    def file(self) -> str:
        """The module's path in its room."""
        return str(Path(*self.path.parts[2:]))

    @property
    def module(self) -> str:
        """The module's name, as imported."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    def explanation(self, explained: dict[str, dict[str, str]]) -> str | None:
        """Why no test notices it, where somebody said so: of this change, or of the whole constant."""
        known = explained.get(self.file, {})
        return known.get(self.key, known.get(self.place) if self.lines is None else None)

    @cached_property
    def text(self) -> str:
        """The whole module with the change."""
        tree = ast.parse((ROOT / "src" / self.path).read_text("utf-8"))
        _, other, _, _, replace = next(itertools.islice(variants(tree), self.number, None))
        replace(other)
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


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


def named(node: ast.AST) -> str | None:
    """The name that a statement gives to a function, a class or a constant."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    return node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else None


def places(
    parent: ast.AST, lines: range | None = None, names: tuple[str, ...] = ()
) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, range | None, str]]:
    """Each node below one as (parent, field, index in it, node, lines, place), without annotations and texts of messages."""
    for name, value in ast.iter_fields(parent):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        inside = lines is not None or (isinstance(parent, ast.FunctionDef) and name == "body")
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr):
                within = None
                if inside:
                    begin = getattr(node, "lineno", 0) if lines is None or isinstance(node, ast.stmt) else lines.start
                    within = range(begin, (getattr(node, "end_lineno", None) or begin) + 1)
                new = named(node)
                below = (
                    (*names, new) if new and not (inside and isinstance(node, ast.Assign | ast.AnnAssign)) else names
                )
                yield parent, name, index, node, within, ".".join(below)
                yield from places(node, within, below)


def variants(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, range | None, str, Callable[[ast.AST], None]]]:
    """Each node with each that may stand in its place, the lines up to it, its place, and what puts another one there."""
    for parent, name, index, node, lines, place in places(tree):

        def replace(other: ast.AST, parent: ast.AST = parent, name: str = name, index: int | None = index) -> None:
            if index is None:
                setattr(parent, name, other)
            else:
                getattr(parent, name)[index] = other

        for other in changes(node):
            yield node, other, lines, place, replace


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a module."""
    seen: Counter[str] = Counter()
    for number, (node, other, lines, place, _) in enumerate(variants(ast.parse(path.read_text("utf-8")))):
        before, after = (" ".join(ast.unparse(one).split()) for one in (node, other))
        change = f"{before[:90]}  ->  {after[:90]}"
        key = f"{place}: {change}"
        seen[key] += 1
        if seen[key] > 1:
            key += f" #{seen[key]}"
        yield Mutant(path.relative_to(ROOT / "src"), getattr(node, "lineno", 0), lines, place, key, change, number)


def explanations(room: str, mutants: list[Mutant]) -> dict[str, dict[str, str]]:
    """The explained changes of each module of a room.

    **Raises:** `SystemExit` where one is not among the room's mutants, or is of no kind.
    """
    file = Path(__file__).parent / "explained" / f"{room}.toml"
    explained = tomllib.loads(file.read_text("utf-8")) if file.exists() else {}
    known = {(one.file, key) for one in mutants for key in (one.key, *([one.place] if one.lines is None else []))}
    wrong = [f"{module}  {key}" for module, entries in explained.items() for key, reason in entries.items()
             if (module, key) not in known or reason.split(":")[0] not in KINDS]  # fmt: skip
    if wrong:
        sys.exit(f"{file} has entries that are no mutants, or of no kind:\n  " + "\n  ".join(wrong))
    return explained


def functions_of(code: CodeType) -> Iterator[CodeType]:
    """The functions of a module and of its classes, without those inside of functions."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from [one] if one.co_flags & _OPTIMISED else functions_of(one)


Functions = dict[tuple[str, str], list[list[FunctionType]]]
"""The functions that were imported, by file and name: for each definition of the name, in order, those with its code."""


def imported_functions(folder: Path) -> Functions:
    """Those of a folder."""
    found: defaultdict[tuple[str, str], defaultdict[int, list[FunctionType]]] = defaultdict(lambda: defaultdict(list))
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(str(folder)):
            found[one.__code__.co_filename, one.__code__.co_qualname][one.__code__.co_firstlineno].append(one)
    return {name: [functions for _, functions in sorted(lines.items())] for name, lines in found.items()}


def put(mutant: Mutant, functions: Functions) -> None:
    """Put the code of a mutant into the functions of its module, wherever they are referred to.

    **Raises:** `LookupError` where a changed function is not there to be changed.
    """
    path = ROOT / "src" / mutant.path
    plain = ast.unparse(ast.parse(path.read_text("utf-8"))) + "\n"
    definitions: defaultdict[str, list[tuple[CodeType, CodeType]]] = defaultdict(list)
    texts = [functions_of(compile(text, str(path), "exec")) for text in (plain, mutant.text)]
    for before, after in zip(*texts, strict=True):
        definitions[after.co_qualname].append((before, after))
    for name, codes in definitions.items():
        for number, (before, after) in enumerate(codes):
            if before != after:
                found = functions.get((str(path), name), [])
                if len(found) != len(codes):
                    raise LookupError(name)
                for function in found[number]:
                    function.__code__ = after


def in_child(work: Callable[[], int], limit: float) -> int | None:
    """What a function returns in a copy of this process; None where it does not end within the time limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of threads, which it has not begun here
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setpgid(0, 0)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            status = work()
        finally:
            os._exit(status)
    deadline = time.monotonic() + limit
    try:
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                child = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        return None
    finally:
        if child:
            os.killpg(child, signal.SIGKILL)  # with the processes that a test started
            os.waitpid(child, 0)


def run_tests(session: pytest.Session, items: list[pytest.Item], first: bool) -> int:
    """Run some of the collected tests; 1 where one fails, and with `first` end there."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if first and session.testsfailed:
            return 1
    return int(session.testsfailed > 0)


@dataclass(frozen=True)
class Traced:
    """A test: its name, the seconds it took, and the lines of each module of the room that it ran."""

    name: str
    seconds: float
    lines: dict[str, frozenset[int]]


class Mutants:
    """A pytest plugin: in the place of running the collected tests, run them on mutants of a room.

    **Attributes:** `given`: the command line; `drawn`: the mutants, in the order in which they are tried.
    """

    def __init__(self, given: argparse.Namespace, drawn: list[Mutant]):
        self.given, self.drawn = given, drawn
        self.deadline = time.monotonic() + 60 * given.minutes
        self.items: dict[str, pytest.Item] = {}
        self.tests: list[Traced] = []
        self.functions: Functions = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants, and print what became of them."""
        self.items = {item.nodeid: item for item in session.items}
        self.functions = imported_functions(ROOT / "src" / "veil" / self.given.room)
        gc.freeze()  # so that collections in a copy of this process do not copy its memory
        self.tests = self.traced(session)
        tried, survivors = 0, []
        for mutant in self.drawn:
            if time.monotonic() > self.deadline:
                print(f"stopped after {self.given.minutes:g} minutes")
                break
            word, tried = self.tried(session, mutant), tried + 1
            if word != "killed":
                survivors.append(f"{word}: {mutant.path}:{mutant.line}  {mutant.key}")
            print(f"{word:8}  {mutant.words}", flush=True)
        print(f"\n{self.given.room}: {score(tried - len(survivors), tried)}, seed {self.given.seed}")
        print("".join(f"  {survivor}\n" for survivor in survivors))
        return True

    def traced(self, session: pytest.Session) -> list[Traced]:
        """The tests that pass and take at most the limit, quickest first."""
        of_files: defaultdict[Path, list[pytest.Item]] = defaultdict(list)
        for item in self.items.values():
            of_files[item.path].append(item)
        found = [entry for file, items in of_files.items() for entry in self.traced_file(session, file, items).items()]
        out = [name for name, (seconds, passed, _) in found if not passed or seconds > self.given.test_limit]
        print(
            f"\n{len(found)} tests take {sum(entry[0] for _, entry in found):.0f} s, traced; left out: {out or 'none'}"
        )
        tests = [
            Traced(name, seconds, {module: frozenset(numbers) for module, numbers in lines.items()})
            for name, (seconds, _, lines) in found
            if name not in out
        ]
        return sorted(tests, key=lambda test: test.seconds)

    def traced_file(self, session: pytest.Session, file: Path, items: list[pytest.Item]) -> dict[str, TracedTest]:
        """What the tests of one file run; traced once for each state of the sources, the file and what tests share."""
        names = " ".join(item.nodeid for item in items).encode()
        content = hashlib.sha256(self.shared + file.read_bytes() + names).hexdigest()[:16]
        kept = ROOT / "out" / "mutants" / f"{self.given.room}-{file.stem}-{content}.json"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)

            def trace() -> int:
                tracing = Tracing(f"{ROOT / 'src' / 'veil' / self.given.room}{os.sep}")
                session.config.pluginmanager.register(tracing)
                run_tests(session, items, first=False)
                kept.write_text(json.dumps(tracing.tests), "utf-8")
                return 0

            in_child(trace, self.deadline - time.monotonic())
            if not kept.exists():
                pytest.exit(f"{file.name} did not end within {self.given.minutes:g} minutes: give more --minutes")
        return json.loads(kept.read_text("utf-8"))

    @cached_property
    def shared(self) -> bytes:
        """A digest of the sources and of what tests share."""
        files = [*(ROOT / "src" / "veil").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
        return hashlib.sha256(
            b"".join(path.read_bytes() for path in sorted(files) if not path.name.startswith(("test_", "mutants.")))
        ).digest()

    def picked(self, mutant: Mutant) -> list[Traced]:
        """The tests that run the changed line, those of its module and quick ones first, until they take long enough.

        All tests that run the module, for a change of no function.
        """
        taken, found = 0.0, []
        for test in sorted(self.tests, key=lambda test: f"test_{mutant.path.stem}.py" not in test.name):
            lines = test.lines.get(mutant.file, frozenset())
            if taken < self.given.seconds and lines and (mutant.lines is None or not lines.isdisjoint(mutant.lines)):
                found.append(test)
                taken += test.seconds
        return found

    def tried(self, session: pytest.Session, mutant: Mutant) -> str:
        """`killed`, or how a mutant survived: no test runs the line (`not run`), or none fails (`SURVIVED`)."""
        picked = self.picked(mutant)
        if not picked:
            return "not run"
        limit = 3 * sum(test.seconds for test in picked) + _MORE_SECONDS

        def change_and_run() -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 1))
            try:
                put(mutant, self.functions)
            except LookupError:
                return 3
            return run_tests(session, [self.items[test.name] for test in picked], first=True)

        status = in_child(change_and_run, _WAITING * limit) if mutant.lines is not None else 3
        if status == 3:  # of pytest: an internal error, which a run with the changed file must decide
            status = run_changed(mutant, [test.name for test in picked], _WAITING * limit)
        return "SURVIVED" if status == 0 else "killed"


def run_changed(mutant: Mutant, names: list[str], limit: float) -> int | None:
    """The exit status of pytest in a new process that imports the mutant's text as its module; None after the time limit."""
    with tempfile.TemporaryDirectory(prefix="veil-mutants-") as folder:
        text, tests = Path(folder) / "text", Path(folder) / "tests"
        text.write_text(mutant.text, "utf-8")
        tests.write_text("".join(f"{name}\n" for name in names), "utf-8")
        variables = {"VEIL_CHANGED_MODULE": mutant.module, "VEIL_CHANGED_TEXT": str(text)}
        child = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-x", "-p", "tests.changed", *PYTEST, f"@{tests}"],
            cwd=ROOT, env=os.environ | variables, process_group=0,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            return child.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


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
    parser.add_argument("--tests", nargs="*", help="only these test files or folders, as: tests/proof/test_verify.py")
    parser.add_argument("--lines", nargs="*", help="only these lines, as: verify:120 backward:33")
    parser.add_argument("--again", nargs="*", type=Path, help="only the survivors in what earlier runs printed")
    parser.add_argument("--explained", action="store_true", help="only those that are explained: all should survive")
    parser.add_argument("--count", type=int, default=60, help="mutants drawn at random (default: 60)")
    parser.add_argument("--skip", type=int, default=0, help="of these, not the first ones (default: 0)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30.0, help="no mutant is begun after this time (default: 30)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests for each mutant, as traced (default: 60)")
    parser.add_argument("--test-limit", type=float, default=60.0, help="tests that take longer are left out (s)")
    given = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    sys.path.insert(0, str(ROOT / "src"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the tests under way end too
    modules = sorted((ROOT / "src" / "veil" / given.room).rglob("*.py"))
    drawn = [mutant for path in modules for mutant in mutants_of(path)]
    explained = explanations(given.room, drawn)
    drawn = [mutant for mutant in drawn if given.modules is None or mutant.path.stem in given.modules]
    if given.lines is not None:
        drawn = [mutant for mutant in drawn if f"{mutant.path.stem}:{mutant.line}" in given.lines]
    if given.again is not None:
        before = {line.partition("  ")[2].strip() for file in given.again for line in file.read_text("utf-8").splitlines()
                  if line.startswith(("SURVIVED", "not run"))}  # fmt: skip
        drawn = [mutant for mutant in drawn if mutant.words in before]
    reasons = [mutant.explanation(explained) for mutant in drawn]
    kinds = Counter(reason.split(":")[0] for reason in reasons if reason is not None)
    print(f"{len(drawn)} possible mutants of {given.room}; of these explained: {dict(kinds) or 'none'}")
    drawn = [mutant for mutant, reason in zip(drawn, reasons, strict=True) if (reason is not None) == given.explained]
    random.Random(given.seed).shuffle(drawn)
    tests = given.tests or [f"tests/{given.room}"]
    sys.exit(pytest.main([*PYTEST, "-s", *tests], plugins=[Mutants(given, drawn[given.skip : given.count])]))


if __name__ == "__main__":
    main()
