"""The public names: few, resolvable, quick to import, and not hidden by the rooms of the same name."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import veil

SOURCE = Path(veil.__file__).parent


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    environment = {"PYTHONPATH": str(SOURCE.parent), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_name_resolves():
    for name in veil.__all__:
        assert getattr(veil, name) is not None
        assert not name.startswith("_")
    assert set(veil.__all__) <= set(dir(veil))


def test_there_are_fewer_than_45():
    assert len(veil.__all__) == len(set(veil.__all__)) < 45


def test_the_names_of_the_design_are_there():
    promised = {
        "Model", "Observer", "LastState", "InitialState", "StateAt", "Automaton", "WhichModel", "Problem", "gallery",
        "MarkovPolicy", "TimedPolicy", "MemoryPolicy", "ObservationMemory", "StateMemory", "expected_return", "opacity",
        "opacity_gradient", "ObserverFilter", "VeilError", "max_return", "solve", "frontier", "certify",
        "verify", "CertificateError", "attack", "load", "from_gymnasium", "plot", "Certificate",
    }  # fmt: skip
    assert promised <= set(veil.__all__)


def test_a_star_import_gives_them_all():
    names = run("from veil import *\nprint(' '.join(sorted(n for n in dir() if not n.startswith('_'))))")
    assert names.split() == sorted(veil.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'veil' has no attribute 'opacities'"):
        veil.opacities


def test_types_are_declared_for_the_same_names():
    """What a type checker sees under TYPE_CHECKING is what `__getattr__` finds."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    declared = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        declared.update({alias.asname: (node.module, alias.name) for alias in node.names})
    assert declared.keys() == set(veil.__all__)
    for name, (module, original) in declared.items():
        if name in veil._HOME_OF:
            assert name == original
            assert veil._HOME_OF[name] == module
        else:
            assert veil._MODULES[name] == f"{module}.{original}"


def test_a_name_is_the_one_of_its_home():
    from veil.opacity.evaluate import opacity
    from veil.problem.model import Model

    assert veil.opacity is opacity
    assert veil.Model is Model


def test_opacity_stays_a_function_after_its_room_is_imported():
    code = """
import veil.opacity.exact, veil.engine.tree, veil
from veil.opacity import exact
print(callable(veil.opacity), veil.opacity.__name__, exact.__name__, type(veil.opacity_gradient).__name__)
"""
    assert run(code) == "True opacity veil.opacity.exact function"


@pytest.mark.parametrize("code", ["import veil", "import veil; veil.__all__; veil.__version__; dir(veil)"])
def test_the_import_is_light(code: str):
    loaded = run(f"{code}\nimport sys\nprint(' '.join(sorted(sys.modules)))").split()
    heavy = {"scipy", "jax", "numpy", "matplotlib", "safetensors", "jaxtyping", "optax"}
    assert heavy.isdisjoint(loaded)


def test_an_error_class_does_not_cost_an_import_of_jax():
    loaded = run("import veil\nveil.VeilError\nimport sys\nprint(' '.join(sorted(sys.modules)))").split()
    assert "jax" not in loaded
    assert "scipy.sparse.linalg" not in loaded


def test_the_errors_are_one_family():
    kinds = [kind for kind in vars(veil.errors).values() if isinstance(kind, type)]
    assert len(kinds) > 6
    assert all(issubclass(kind, veil.VeilError) for kind in kinds if issubclass(kind, Exception))
    for name in ("InputError", "InfeasibleError", "TooLargeError"):
        assert getattr(veil, name) is getattr(veil.errors, name)
