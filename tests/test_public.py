"""The public names: resolvable, typed by one stub, quick to import."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import veil
from tests.seeds import looped

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


def test_a_name_that_is_nearly_right_is_corrected():
    with pytest.raises(AttributeError, match="did you mean 'MarkovPolicy'"):
        getattr(veil, "Markovpolicy")  # noqa: B009
    assert not hasattr(veil, "__nothing__")


def test_the_names_of_the_design_are_there():
    promised = {
        "Model", "Observer", "LastState", "InitialState", "StateAt", "Automaton", "WhichModel", "Problem", "gallery",
        "MarkovPolicy", "TimedPolicy", "MemoryPolicy", "ObservationMemory", "StateMemory", "expected_return", "opacity",
        "opacity_gradient", "ObserverFilter", "VeilError", "max_return", "solve", "frontier", "certify",
        "verify", "CertificateError", "attack", "load", "from_gymnasium", "plot", "Certificate", "HistoryPolicy", "load_policy",
        "measures", "soft", "from_prism", "from_pomdp", "from_arrays", "from_drn", "Imported",
    }  # fmt: skip
    assert promised <= set(veil.__all__)


def test_a_star_import_gives_them_all():
    names = run("from veil import *\nprint(' '.join(sorted(n for n in dir() if not n.startswith('_'))))")
    assert names.split() == sorted(veil.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'opacities': did you mean 'opacity'"):
        getattr(veil, "opacities")  # noqa: B009


def test_the_stub_names_what_is_there():
    """A type checker and `lazy_loader` read the same stub; each name is that of its module."""
    tree = ast.parse((SOURCE / "__init__.pyi").read_text(encoding="utf-8"))
    homes = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert homes.keys() == set(veil.__all__)
    for name, home in homes.items():
        assert getattr(importlib.import_module(f"veil.{home}"), name) is getattr(veil, name)


def test_a_name_is_the_one_of_its_home():
    from veil.measure.evaluate import opacity
    from veil.problem.model import Model

    assert veil.opacity is opacity
    assert veil.Model is Model


def test_no_room_has_the_name_of_a_public_function():
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    assert rooms.isdisjoint(veil.__all__)
    assert type(veil).__name__ == "module"


@looped("code", ["import veil", "import veil; veil.__all__; veil.__version__; dir(veil)"])
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
