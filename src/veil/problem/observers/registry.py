"""The features of observers: veil's own, and those of other packages through the entry points `veil.observers`."""

from ...common.registry import Registry
from ..keys import defect_of_keys
from .feature import ObserverFeature


def _check(entry: object) -> str | None:
    """What keeps the class of another package from being a feature of observers."""
    if not (isinstance(entry, type) and issubclass(entry, ObserverFeature)):
        return "expected a subclass of veil.problem.observers.ObserverFeature"
    if not isinstance(getattr(entry, "kind", None), str):
        return "expected the class attribute kind, its name in scenario files"
    return defect_of_keys(entry.keys)


# By the name in scenario files, `noise = 0.1`.
OBSERVERS: Registry[type[ObserverFeature]] = Registry(
    "feature of observers", "veil.observers", {"noise": "veil.problem.observers.noise:Noise"}, _check
)
