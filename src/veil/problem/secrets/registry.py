"""The kinds of secret: veil's own, and those of other packages through the entry points `veil.secrets`."""

from ...common.registry import Registry
from ..keys import defect_of_keys
from .secret import Secret


def _check(entry: object) -> str | None:
    """What keeps the class of another package from being a secret."""
    if not (isinstance(entry, type) and issubclass(entry, Secret)):
        return "expected a subclass of veil.problem.secrets.Secret"
    if not isinstance(getattr(entry, "kind", None), str):
        return "expected the class attribute kind, its name in scenario files"
    return defect_of_keys(entry.keys)


# By the name in scenario files, `kind = "last_state"`.
SECRETS: Registry[type[Secret]] = Registry(
    "secret",
    "veil.secrets",
    {
        "last_state": "veil.problem.secrets.last_state:LastState",
        "state_now": "veil.problem.secrets.state_now:StateNow",
        "initial_state": "veil.problem.secrets.initial_state:InitialState",
        "state_at": "veil.problem.secrets.state_at:StateAt",
        "automaton": "veil.problem.secrets.automaton:Automaton",
        "automaton_state": "veil.problem.secrets.automaton_state:AutomatonState",
        "formula": "veil.problem.secrets.holds:Holds",
        "visited": "veil.problem.secrets.visited:Visited",
        "first_reached": "veil.problem.secrets.visited:FirstReached",
        "trajectory": "veil.problem.secrets.trajectory:Trajectory",
        "which_model": "veil.problem.secrets.which_model:WhichModel",
    },
    _check,
)
