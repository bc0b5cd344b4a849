"""The kinds of secret: veil's own, and those of other packages through the entry points `veil.secrets`."""

from ...common.registry import Registry
from .secret import Key, Secret


def _check(entry: object) -> str | None:
    if not (isinstance(entry, type) and issubclass(entry, Secret)):
        return "expected a subclass of veil.problem.secrets.Secret"
    if not isinstance(getattr(entry, "kind", None), str):
        return "expected the class attribute kind, its name in scenario files"
    return (
        None if all(isinstance(key, Key) for key in entry.keys) else "expected the class attribute keys, a tuple of Key"
    )


# By the name in scenario files, `kind = "last_state"`.
SECRETS: Registry[type[Secret]] = Registry(
    "secret",
    "veil.secrets",
    {
        "last_state": "veil.problem.secrets.last_state:LastState",
        "initial_state": "veil.problem.secrets.initial_state:InitialState",
        "state_at": "veil.problem.secrets.state_at:StateAt",
        "automaton": "veil.problem.secrets.automaton:Automaton",
        "which_model": "veil.problem.secrets.which_model:WhichModel",
    },
    _check,
)
