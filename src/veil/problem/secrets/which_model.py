"""The secret `which_model`: which of several models is running?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ...common.checks import Defects, Names, as_floats, check_distributions, check_shape
from ..keys import Key
from ..model import Model
from .secret import Secret, SecretTable

if TYPE_CHECKING:
    from ..problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class WhichModel(Secret):
    """Which of several models over the same states is running?

    **Arguments:** `weights`, the prior `(K,)`, uniform by default; `names` of the models; `agent_knows`, whether the
    policy may depend on the model that runs (the table then has a row for each pair of model and state).
    """

    kind = "which_model"
    keys = (Key("agent_knows", bool, "Whether the policy may depend on the model that runs.", False),)
    several_models = True

    weights: Sequence[float] | Float[np.ndarray, " K"] | None = None
    names: Sequence[str] | None = None
    agent_knows: bool = False

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The product with the index of the model, which never changes; the label at time 0 is that index."""
        count, size = len(models), models[0].num_states
        if count < 2:
            found = f"the problem has {count} model, expected at least two"
            defects.add(f"{found}: Problem((first, second), …)", "kind")
            return None
        names = Names("model", count, self.names, "model ", defects)
        weights = as_floats([1 / count] * count if self.weights is None else self.weights, "weights", defects)
        if weights is None or not check_shape(weights, (count,), "weights", defects):
            return None
        check_distributions(weights, lambda: "weights", lambda k: f"weight {k}", defects)
        return SecretTable(
            time=0,
            value_names=names.all(),
            label=np.repeat(np.arange(count)[:, None, None], size, axis=2),
            memory_start=np.zeros(size, dtype=int),
            memory_step=np.zeros((1, size), dtype=int),
            weights=weights,
            agent_knows=bool(self.agent_knows),
        )

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return "Which of the models is running?"
