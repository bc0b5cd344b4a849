"""veil plans under observation: it keeps a secret from a watcher and says how many bits any policy gives away."""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine.filter import ObserverFilter as ObserverFilter
    from .opacity.evaluate import expected_return as expected_return
    from .opacity.evaluate import opacity as opacity
    from .opacity.evaluate import opacity_gradient as opacity_gradient
    from .opacity.evaluate import return_gradient as return_gradient
    from .opacity.measures import JointTable as JointTable
    from .opacity.measures import bits_over_time as bits_over_time
    from .opacity.measures import joint_table as joint_table
    from .opacity.measures import observation_costs as observation_costs
    from .opacity.measures import sensor_costs as sensor_costs
    from .opacity.result import Opacity as Opacity
    from .policy.load import load_policy as load_policy
    from .policy.markov import MarkovPolicy as MarkovPolicy
    from .policy.timed import TimedPolicy as TimedPolicy
    from .problem import gallery as gallery
    from .problem.errors import ImpossibleObservationError as ImpossibleObservationError
    from .problem.errors import InputError as InputError
    from .problem.errors import PolicyFileError as PolicyFileError
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

__version__ = "0.1.0"

# Where each public name lives; a name is imported when it is first used, so that `import veil` stays quick.
_HOMES = {
    "problem.errors": ["ImpossibleObservationError", "InputError", "PolicyFileError", "TooLargeError", "VeilError"],
    "problem.model": ["Model"],
    "problem.observer": ["Observer"],
    "problem.secret": ["Automaton", "InitialState", "LastState", "StateAt", "WhichModel"],
    "problem.problem": ["Problem"],
    "problem.grid": ["GridWorld", "Sensor"],
    "policy.markov": ["MarkovPolicy"],
    "policy.timed": ["TimedPolicy"],
    "policy.load": ["load_policy"],
    "engine.filter": ["ObserverFilter"],
    "opacity.result": ["Opacity"],
    "opacity.evaluate": ["expected_return", "opacity", "opacity_gradient", "return_gradient"],
    "opacity.measures": ["JointTable", "bits_over_time", "joint_table", "observation_costs", "sensor_costs"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {"gallery": "problem.gallery"}

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
