"""Several secrets as one: its value is that of each of them along every path, and what does not fit is refused."""

from itertools import product

import numpy as np
import pytest

import veil
from tests.random_problems import distributions
from tests.seeds import looped
from veil.common.checks import Defects
from veil.problem.apart import apart, apart_for, joinable
from veil.problem.joined import Joined, join_secrets
from veil.problem.secrets.secret import Secret, SecretTable

HORIZON = 3
SECRETS: dict[str, Secret] = {
    "last": veil.LastState([0]),
    "other": veil.LastState(groups={"one": [1], "two": [2]}),
    "start": veil.InitialState(),
    "early": veil.StateAt(1, [0]),
    "later": veil.StateAt(2, [1]),
    "visited": veil.Visited({"two": [2]}),
}


def model() -> veil.Model:
    rng = np.random.default_rng(4)
    return veil.Model(distributions(rng, 3, 2, 3), rng.uniform(size=(3, 2)), distributions(rng, 3))


def table_of(secret: Secret) -> SecretTable:
    found = secret.resolve([model()], HORIZON, Defects("secret"))
    assert found is not None
    return found


def value(table: SecretTable, path: tuple[int, ...]) -> int:
    """The value of a secret along a path, step by step."""
    memory = int(table.memory_start[path[0]])
    for state in path[1 : table.time + 1]:
        memory = int(table.memory_step[memory, state])
    return int(table.label[0, memory, path[table.time]])


def problem(*names: str) -> veil.Problem:
    """A problem whose own secret is the first of some, the others being those of pairs with its observer."""
    pairs = [veil.Pair(name, secret=SECRETS[name]) for name in names[1:]]
    return veil.Problem(model(), veil.Observer(np.eye(3)), SECRETS[names[0]], HORIZON, pairs=pairs)


@looped("names", [("last", "other"), ("last", "start"), ("start", "early"), tuple(SECRETS)])
def test_the_value_of_each_secret_along_every_path(names: tuple[str, ...]) -> None:
    tables = [table_of(SECRETS[name]) for name in names]
    whole, values = join_secrets(tables, HORIZON)
    assert whole.time == HORIZON
    assert len(whole.memory_names) == len(set(whole.memory_names)) == len(whole.memory_step)
    for path in product(range(3), repeat=HORIZON + 1):
        found = value(whole, path)
        wanted = [value(table, path) for table in tables]
        assert [int(one[found]) for one in values] == wanted
        parts = [table.value_names[one] for table, one in zip(tables, wanted, strict=True)]
        assert whole.value_names[found] == " & ".join(parts)


def test_one_problem_of_several_pairs() -> None:
    """The secret of all, the value of each, and whether an agent knows all that is remembered."""
    asked = problem("last", "start", "visited")
    found = apart(asked, ("own", "start"))
    assert isinstance(found.joint.secret, Joined)
    assert found.executable
    assert [one.num_values for one in found.views] == [2, 3]
    assert not apart(asked, ("own", "visited")).executable
    assert apart(asked, ("own",)).joint.secret == SECRETS["last"]
    assert "several pairs" in found.joint.secret.describe(found.joint)
    with pytest.raises(veil.InputError, match="no form in files"):
        found.joint.secret.to_table(found.joint.model.states)
    assert found.joint == apart(asked, ("own", "start")).joint


def test_which_secrets_go_together() -> None:
    asked = problem("last", "start").replace(
        pairs=[
            veil.Pair("path", secret=veil.Trajectory()),
            veil.Pair("start", secret=veil.InitialState()),
            veil.Pair("wrong", belief=veil.Belief("uniform")),
        ]
    )
    assert joinable(asked, ("own", "path", "start", "wrong")) == ("own", "start")
    assert joinable(asked, ("path", "own", "start")) == ("path",)
    models = veil.Problem([model(), model()], veil.Observer(np.eye(3)), veil.WhichModel(), HORIZON)
    models = models.replace(pairs=[veil.Pair("two", veil.Observer(np.eye(3)))])
    assert joinable(models, ("own", "two")) == ("own", "two")


@looped(
    ("sees", "pair", "known"),
    [("last", "other", True), ("last", "start", False), ("start", "last", False), ("visited", "last", True)],
)
def test_what_a_policy_on_histories_knows(sees: str, pair: str, known: bool) -> None:
    """Its rows say what it does where the other secret remembers nothing more, and no value is known before the end."""
    asked = problem(sees, pair)
    if known:
        assert apart_for(asked, ("own",), pair).names == ("own", pair)
    else:
        with pytest.raises(veil.InputError, match="larger memory"):
            apart_for(asked, ("own",), pair)
    assert apart_for(asked, ("own", pair), pair).names == ("own", pair)
