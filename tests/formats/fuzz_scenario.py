"""Mutated scenario files: values, lines and blocks of lines are changed."""

import random
from functools import cache
from pathlib import Path

import numpy as np

from tests.formats.fuzz_texts import mixed
from tests.formats.scenarios import ALL
from veil.formats.gallery import names, scenario_text, starter

_VALUES = (
    "0", "1", "-1", "3", "0.5", "1.5", "-0.1", "1e308", "1e-320", "inf", "nan", "9223372036854775808", "0xffffffffffffffffff",
    "true", "false", '""', '"a"', '"0"', '"+"', '"80%"', '"-3%"', "[]", "{}", "[[]]", "[0, 0]", "[[0, 0]]", "[1, 2, 3]",
    '["a", "go", "b"]', '["a", "go", { a = 1 }]', "{ a = 1 }", '{ where = "row=1" }', '{ where = "index<2 & (state=a)" }',
    '{ where = "((" }', '{ drawn = "S" }', '"r0c0"', "1979-05-27", "07:32:00", '"markov"', '"timed"', "{ states = 1 }",
    "{ observations = 2 }", "{ controller = 3 }", '{ zones = ["r0c0", [1]] }', '"last_state"', '"which_model"', '"automaton"',
    '"initial_state"', '"state_at"', '"single"', '"infinite"', '"\\u0000"', '"../../etc/passwd"', '"model.pomdp"', "100000",
    "99999999", '"""\n. S\n? G\n"""', "'''\nS?\n'''",
)  # fmt: skip
_LINES = (
    "[grid]", "[graph]", "[file]", "[observer]", "[secret]", "[solve]", "[[models]]", "[models.grid]", "[models.graph]",
    "[grid.legend]", "[grid.sensors.c]", "[observer.sensors.eye]", "[observer.emissions]", "[observer.action_emissions.go]",
    "[observer.mutes.x]", "[secret.groups]", "[secret.labels]", "[solve.memory]", "[[grid.starts]]", "[[grid.goals]]",
    "[[file.rewards]]", "cell = [0, 0]", "weight = 2", "reward = 1", "rows = 3", "columns = 3", "rest = 'x'", "noise = 0.1",
    "variables = ['state']", "readings = 'single'", "sees_initial = false", "sees_actions = true", "states = [0, 1]",
    "agent.sees = 'observations'", "return_over = 'infinite'", "discount = 0.5", "goals_pay_last = true", "path = 'x.npz'",
)  # fmt: skip


@cache
def seeds() -> list[str]:
    """The texts that mutations begin from."""
    return [
        *ALL.values(),
        starter("grid"),
        starter("graph"),
        starter("file"),
        *map(scenario_text, ("two-rooms", *(name for name in names() if "grid" in scenario_text(name)))),
    ]


def scenario(rng: random.Random) -> bytes:
    """A mutated scenario file."""
    return mixed(rng, seeds(), (*_VALUES, *(f"\n{line}\n" for line in _LINES)))


def put_model(folder: Path) -> None:
    """The model file that some of the texts refer to."""
    np.savez(
        folder / "model.npz",
        transitions=np.full((3, 2, 3), 1 / 3),
        rewards=np.eye(3)[:, :2],
        initial=np.eye(3)[0],
    )
