"""Requests of every form to the panes Draw, Look and Play: each is answered or refused, and every answer is JSON."""

import json
import random

import pytest

from veil.common.errors import VeilError
from veil.formats.documents import plain
from veil.studio import drawing, looking, playing
from veil.studio.routes import ROUTES, Answer, Refused
from veil.studio.state import Studio

VALUES = [None, True, -1, 0, 3, 1e308, 0.5, "", "x", "uniform", "observer", "next", "guess", "move", "a\0b", "\ud800", "../..",
          [], {}, [[]], [["S", "."], [".", "?G"]], [{"at": ["grid", "slip"], "value": 0.2}], [{"at": ["grid"], "value": None}],
          [{"at": ["a", "b", "c"], "value": {"d": [1]}}], "horizon = 3", "[grid]\ndrawing = '''\nS?\n.G'''\n",
          "[grid]\nrows = 1e9", "[grid]\nrows = 3\ncolumns = 3\nwalls = [[9, 9], 3]\n",
          "[grid]\nsensors = 3\ndrawing = 'S'"]  # fmt: skip
KEYS = ("text", "options", "changes", "cells", "gallery", "path", "name", "secret", "horizon", "id", "role", "run", "play",
        "act", "value", "probability", "action")  # fmt: skip
ANSWERS = (drawing.check, drawing.change, drawing.open_another, looking.look, playing.start, playing.show, playing.act)


def try_requests(answer: Answer, studio: Studio, count: int) -> int:
    """How many of some random requests were answered; the others were refused."""
    draw, answered = random.Random(answer.__name__), 0
    game = playing.start({"role": "observer", "run": "uniform"}, studio)["play"]
    scenario = studio.scenario
    for _ in range(count):
        request = {key: draw.choice(VALUES) for key in KEYS if draw.random() < 0.3}
        if draw.random() < 0.5:
            request |= {
                "id": "uniform",
                "role": "observer",
                "run": "uniform",
                "play": game,
                "act": draw.choice(("next", "guess", "move", "again")),
                "value": 0,
                "probability": 0.5,
            }
        try:
            json.dumps(plain(answer(request, studio)), allow_nan=False)
            answered += 1
        except (Refused, VeilError):
            pass
        studio.set_scenario(scenario)
    return answered


@pytest.mark.parametrize("count", [50, pytest.param(3000, marks=pytest.mark.slow)])
def test_every_request_is_answered_or_refused(studio: Studio, count: int):
    for answer in ANSWERS:
        assert 0 < try_requests(answer, studio, count) < count, answer


def test_every_route_of_the_panes_is_tried():
    tried = {f"{answer.__module__}:{answer.__name__}" for answer in ANSWERS} | {"veil.studio.drawing:show_gallery"}
    rooms = ("veil.studio.drawing:", "veil.studio.looking:", "veil.studio.playing:")
    assert {function for function in ROUTES.values() if function.startswith(rooms)} == tried
