"""The kinds of secret: veil's own, and those of other packages through the entry points `veil.secrets`."""

from ...common.registry import Registry
from ..keys import defect_of_kind
from .secret import Secret

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
    lambda entry: defect_of_kind(entry, Secret, "veil.problem.secrets.Secret"),
)
