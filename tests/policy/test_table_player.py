"""Playing policies without memory: the end of the horizon."""

import pytest

from tests.formats.policies import policies, watched
from veil.common.errors import InputError, VeilError


def test_a_player_ends_with_the_horizon():
    problem = watched()
    player = policies(problem)["timed"].player(problem)
    for _ in range(3):
        player.act(0)
    with pytest.raises(VeilError, match="begin a new run"):
        player.act(0)
    with pytest.raises(InputError, match="nowhere"):
        policies(problem)["markov"].player(problem).act("nowhere")
