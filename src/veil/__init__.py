"""veil plans under observation: it keeps a secret from a watcher and says how many bits any policy gives away."""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .certify.certificate import Certificate as Certificate
    from .certify.issue import certify as certify
    from .certify.verify import verify as verify
    from .engine.filter import ObserverFilter as ObserverFilter
    from .io.gymnasium import from_gymnasium as from_gymnasium
    from .io.scenario import load as load
    from .opacity import measures as measures
    from .opacity.attack import attack as attack
    from .opacity.evaluate import expected_return as expected_return
    from .opacity.evaluate import opacity as opacity
    from .opacity.evaluate import opacity_gradient as opacity_gradient
    from .opacity.result import Opacity as Opacity
    from .policy.load import load_policy as load_policy
    from .policy.markov import MarkovPolicy as MarkovPolicy
    from .policy.memories import Controller as Controller
    from .policy.memories import ObservationMemory as ObservationMemory
    from .policy.memories import StateMemory as StateMemory
    from .policy.memories import ZoneMemory as ZoneMemory
    from .policy.memory import MemoryPolicy as MemoryPolicy
    from .policy.timed import TimedPolicy as TimedPolicy
    from .problem import errors as errors
    from .problem import gallery as gallery
    from .problem.errors import CertificateError as CertificateError
    from .problem.errors import InfeasibleError as InfeasibleError
    from .problem.errors import InputError as InputError
    from .problem.errors import TooLargeError as TooLargeError
    from .problem.errors import VeilError as VeilError
    from .problem.grid import GridWorld as GridWorld
    from .problem.grid import Sensor as Sensor
    from .problem.model import Model as Model
    from .problem.observer import Observer as Observer
    from .problem.problem import Problem as Problem
    from .problem.secret import Automaton as Automaton
    from .problem.secret import InitialState as InitialState
    from .problem.secret import LastState as LastState
    from .problem.secret import StateAt as StateAt
    from .problem.secret import WhichModel as WhichModel
    from .report import plot as plot
    from .solve import soft as soft
    from .solve.frontier import frontier as frontier
    from .solve.max_return import max_return as max_return
    from .solve.solution import Solution as Solution
    from .solve.solution import Status as Status

    # isort: split
    # After the rooms of the same name, which type checkers would see instead.
    from .api import solve as solve

__version__ = "0.1.0"

# Where each public name lives; a name is imported when it is first used, so that `import veil` stays quick.
_HOMES = {
    "problem.errors": [
        "CertificateError",
        "InfeasibleError",
        "InputError",
        "TooLargeError",
        "VeilError",
    ],
    "problem.model": ["Model"],
    "problem.observer": ["Observer"],
    "problem.secret": ["Automaton", "InitialState", "LastState", "StateAt", "WhichModel"],
    "problem.problem": ["Problem"],
    "problem.grid": ["GridWorld", "Sensor"],
    "policy.markov": ["MarkovPolicy"],
    "policy.timed": ["TimedPolicy"],
    "policy.memories": ["Controller", "ObservationMemory", "StateMemory", "ZoneMemory"],
    "policy.memory": ["MemoryPolicy"],
    "policy.load": ["load_policy"],
    "engine.filter": ["ObserverFilter"],
    "opacity.result": ["Opacity"],
    "opacity.evaluate": ["expected_return", "opacity", "opacity_gradient"],
    "opacity.attack": ["attack"],
    "solve.frontier": ["frontier"],
    "solve.max_return": ["max_return"],
    "solve.solution": ["Solution", "Status"],
    "certify.certificate": ["Certificate"],
    "certify.issue": ["certify"],
    "certify.verify": ["verify"],
    "api": ["solve"],
    "io.scenario": ["load"],
    "io.gymnasium": ["from_gymnasium"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {
    "plot": "report.plot",
    "soft": "solve.soft",
    "errors": "problem.errors",
    "gallery": "problem.gallery",
    "measures": "opacity.measures",
}

__all__ = sorted([*_HOME_OF, *_MODULES])  # pyright: ignore[reportUnsupportedDunderAll]


class _Package(ModuleType):
    """Some rooms share their name with a function (`veil.opacity`): importing such a room must not hide the function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str):
    if name in _MODULES:
        return importlib.import_module(f".{_MODULES[name]}", __name__)
    if name in _HOME_OF:
        return getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    raise AttributeError(f"module 'veil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
