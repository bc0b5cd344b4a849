"""The kinds of memory: veil's own, and those of other packages through the entry points `veil.memories`."""

from typing import TYPE_CHECKING

from ...common.registry import Registry

if TYPE_CHECKING:
    from .memory import Memory


def _check(entry: object) -> str | None:
    """What keeps the class of another package from being a memory."""
    from ...problem.keys import defect_of_keys
    from .memory import Memory

    if not (isinstance(entry, type) and issubclass(entry, Memory)):
        return "expected a subclass of veil.policy.memories.Memory"
    if not isinstance(getattr(entry, "kind", None), str):
        return "expected the class attribute kind, its name in scenario files"
    wrong = defect_of_keys(getattr(entry, "keys", None))
    if wrong is None and not (entry.keys and entry.keys[0].name == entry.kind):
        return f"expected the class attribute keys, of which the first is called {entry.kind!r} as the kind"
    return wrong


# By the name in scenario files, `memory = { states = 2 }`.
MEMORIES: "Registry[type[Memory]]" = Registry(
    "memory",
    "veil.memories",
    {
        "observations": "veil.policy.memories.observations:ObservationMemory",
        "states": "veil.policy.memories.states:StateMemory",
        "zones": "veil.policy.memories.zones:ZoneMemory",
        "controller": "veil.policy.memories.controller:Controller",
        "mixture": "veil.policy.memories.mixture:Mixture",
    },
    _check,
)
