"""The second verifier, `veil.verify_plain`, on result folders that tests write."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import veil
from veil.formats.results.folder import CERTIFICATE, POLICY, PROBLEM
from veil.proof.compiled import content_of

SCRIPT = Path(veil.__file__).parent / "verify_plain.py"


def load() -> ModuleType:
    """The file as a program of its own."""
    spec = importlib.util.spec_from_file_location("verify_plain", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


second = load()


def saved(folder: Path, problem: veil.Problem, policy: veil.Policy, certificate: veil.Certificate) -> Path:
    """A folder with the files that a verifier reads."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / PROBLEM).write_bytes(content_of(problem))
    policy.on(problem).save(folder / POLICY)
    certificate.save(folder / CERTIFICATE)
    return folder


def with_claim(folder: Path, certificate: veil.Certificate) -> Path:
    """The folder with another certificate about the same problem and policy."""
    for path in folder.glob("certificate*"):
        path.unlink()
    certificate.save(folder / CERTIFICATE)
    return folder


def code(folder: Path, *options: str) -> int:
    """The exit code of the second verifier."""
    return second.main([str(folder), *options])[1]
