"""The order of the rooms: data flows down the list, imports point up it only; and logarithms have one home."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "veil"

# A module imports from its own room or from rooms earlier in this list.
ROOMS = (
    "common",
    "problem",
    "policy",
    "engine",
    "measure",
    "game",
    "proof",
    "planning",
    "tradeoffs",
    "querying",
    "formats",
    "learning",
    "training",
    "report",
    "study",
    "studio",
    "cli",
)
VERIFIER = "veil.proof.verify"
# What computes policies, measures and bounds; the verifier imports none of it, directly or through other modules.
NOT_IN_THE_VERIFIER = ("veil.engine", "veil.measure", "veil.game", "veil.planning", "veil.tradeoffs",
                       "veil.proof.certify", "veil.proof.observers", "jax", "jaxlib", "numba")  # fmt: skip
HOMES_OF_LOGARITHMS = "veil.common.logs", "veil.common.plain_logs"
LOGARITHMS = {"log", "log2", "log10", "log1p", "logaddexp", "logaddexp2", "logsumexp", "xlogy", "xlog1py", "entr",
              "rel_entr", "kl_div", "entropy"}  # fmt: skip
NUMERIC = {"numpy", "scipy", "math", "jax", "cmath"}

# An entry of a registry: imported when it is first used.
REGISTERED = re.compile(r"veil(\.\w+)+:\w+")

MODULES = {
    ".".join(("veil", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}


@functools.cache
def parse(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"), filename=str(MODULES[module]))


def dotted(node: ast.AST) -> list[str]:
    """The parts of `a.b.c`; an expression before them counts as one part without a name."""
    if isinstance(node, ast.Attribute):
        return [*dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else [""]


def imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Every (line, absolute dotted name) that a module imports, at its top, inside functions or for types only."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and dotted(node.func)[-1:] in (["import_module"], ["__import__"]):
            name = node.args[0] if node.args else None
            yield (
                node.lineno,
                str(name.value) if isinstance(name, ast.Constant) else "a name that only running it tells",
            )
        elif isinstance(node, ast.Constant) and REGISTERED.fullmatch(str(node.value)):
            yield node.lineno, str(node.value).replace(":", ".")


def room(name: str) -> str | None:
    """The room of a dotted name of ours; None for what is not ours, `veil` for the package itself."""
    parts = name.split(".")
    if parts[0] != "veil":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "veil"


def is_foreign(name: str) -> bool:
    """Whether a dotted name is, or lies in, something that the verifier must not import."""
    return any(name == other or name.startswith(f"{other}.") for other in NOT_IN_THE_VERIFIER)


def reached(module: str) -> set[str]:
    """Every module of ours that importing one may load: its imports, theirs, and the packages around each."""
    found, open_ = {module}, [module]
    while open_:
        here = open_.pop()
        names = [name for _, name in imports(parse(here), here, MODULES[here].name == "__init__.py")]
        parts = [name.split(".") for name in (here, *names)]
        around = {".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}
        fresh = {name for name in around if name in MODULES} - found - {"veil"}  # whose public names load when used
        found |= fresh
        open_ += fresh
    return found


def wrong_imports(tree: ast.AST, module: str, is_package: bool = False) -> list[str]:
    own = room(module)
    if own == "veil":  # the package itself opens every door, and nothing of ours may come in by it
        return []
    assert own in ROOMS, f"{module} is in no room of the list"
    allowed = ROOMS[: ROOMS.index(own) + 1]
    if own == "cli":  # users of the public names, as any program outside
        allowed = (*allowed, "veil")
    found = []
    for line, name in imports(tree, module, is_package):
        if name.startswith("a name"):
            found.append(f"{module}:{line} imports {name}, expected a plain import")
        elif room(name) is not None and room(name) not in allowed:
            found.append(f"{module}:{line} imports {name}, expected only rooms {', '.join(allowed)}")
        if module == VERIFIER and is_foreign(name):
            found.append(f"{module}:{line} imports {name}, expected none of {', '.join(NOT_IN_THE_VERIFIER)}")
    return found


def wrong_logarithms(tree: ast.AST) -> list[str]:
    """Calls of a logarithm of NumPy, SciPy, math or JAX, by whatever name they were imported, and their imports."""
    origin: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                origin[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            origin.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)):
            first, *rest = dotted(node)
            full = [*origin.get(first, "").split("."), *rest]
            if full[0] in NUMERIC and full[-1] in LOGARITHMS:
                found.append(f"line {node.lineno}: {'.'.join(full)}")
    return found


def test_rooms_are_in_order():
    walked = MODULES.items()
    assert not [line for name, path in walked for line in wrong_imports(parse(name), name, path.name == "__init__.py")]


def test_the_verifier_reaches_nothing_that_computes_what_it_checks():
    found = reached(VERIFIER)
    assert {"veil.problem.model", "veil.policy.recall", "veil.common.logs"} <= found  # the walk goes on through others
    assert not sorted(filter(is_foreign, found))
    assert any(map(is_foreign, reached("veil.proof.certify")))


def test_the_verifier_loads_nothing_that_computes_what_it_checks():
    """In a fresh interpreter: what verifying a certificate really imports, lazy public names included."""
    code = f"import sys, {VERIFIER}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.split()
    assert VERIFIER in loaded
    assert not sorted(filter(is_foreign, loaded))
    assert set(loaded) & set(MODULES) <= reached(VERIFIER) | {"veil"}  # the walk over the sources misses nothing


def test_logarithms_stay_at_home():
    found = {name: wrong_logarithms(parse(name)) for name in MODULES}
    assert all(found.pop(home) for home in HOMES_OF_LOGARITHMS)  # the scan finds them where they are
    assert found.pop("veil.verify_plain")  # which stands alone
    assert {"veil", "veil.problem.model", "veil.engine.hidden", "veil.measure.exact"} <= set(found)
    assert not {name: lines for name, lines in found.items() if lines}


def test_the_walk_finds_a_wrong_import():
    for module, code in (
        ("veil.problem.model", "from ..engine import tree"),
        ("veil.common.errors", "from ..problem.model import Model"),
        ("veil.problem.model", "import veil"),
        ("veil.policy.markov", "def f():\n    from veil.measure.exact import walk_all"),
        ("veil.policy", "from .. import engine"),
        ("veil.engine.tree", "import veil.game.solve as game"),
        ("veil.engine.tree", "import importlib\nimportlib.import_module('veil.planning')"),
        ("veil.engine.tree", "import importlib\nimportlib.import_module(name)"),
        ("veil.measure.exact", "from veil import solve"),
        ("veil.problem.model", "Registry('method', 'veil.methods', {'ascent': 'veil.planning.ascent:Ascent'})"),
        (VERIFIER, "from ..engine.hidden import build"),
        (VERIFIER, "import jax.numpy as jnp"),
    ):
        found = wrong_imports(ast.parse(code), module, is_package=module == "veil.policy")
        assert len(found) == 1, (module, code)


def test_the_scan_finds_a_logarithm():
    for code in (
        "import numpy as np\nx = np.log(y)",
        "import math\nx = math.log2(y)",
        "from math import log1p as safe\nx = safe(y)",
        "from scipy.special import xlogy\nx = xlogy(y, y)",
        "import scipy.special\nx = scipy.special.entr(y)",
        "import scipy.stats as stats\nx = stats.entropy(y)",
        "import numpy\nx = map(numpy.log, y)",
    ):
        assert wrong_logarithms(ast.parse(code)), code
