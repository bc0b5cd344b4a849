"""The features of observers: veil's own, and those of other packages through the entry points `veil.observers`."""

from ...common.registry import Registry
from ..keys import defect_of_kind
from .feature import ObserverFeature

# By the name in scenario files, `noise = 0.1`.
OBSERVERS: Registry[type[ObserverFeature]] = Registry(
    "feature of observers",
    "veil.observers",
    {"noise": "veil.problem.observers.noise:Noise"},
    lambda entry: defect_of_kind(entry, ObserverFeature, "veil.problem.observers.ObserverFeature"),
)
