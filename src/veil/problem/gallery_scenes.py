"""Realistic problems of the gallery: a guard, a courier, a host, a robot and a convoy, and who watches them."""

import numpy as np
from jaxtyping import Float

from .grid.world import GridWorld
from .model import Model
from .observer import Observer
from .problem import Problem
from .secrets.automaton import Automaton
from .secrets.initial_state import InitialState
from .secrets.state_at import StateAt
from .secrets.which_model import WhichModel

_SILENT = "0"


def office_patrol(
    *, horizon: int = 7, min_return: float | str | None = 0.5, detection: float = 0.85, false_alarm: float = 0.02
) -> Problem:
    """A guard hides whether the server room is guarded at the end of the round, from a burglar who taps two cameras.

    The story: a guard starts in the hall (S) of an office floor. Each decision taken at a control point (G) earns 0.2:
    the round has to be walked; one control point is near the server room, the other far from it. The burglar has tapped
    two hall cameras, `west` and `east`, whose ranges overlap, which miss the guard now and then, and which flicker (a
    false alarm in 2% of the other steps), so every history of readings is possible.

    Who watches: the burglar, who knows the guard's habits (the policy) and sees both cameras from the start.
    What is secret: `LastState`: is the guard in the server room (`?`) when the round ends.
    """
    world = GridWorld.from_ascii(
        """
        ?  ?  #  G  .  .
        ?  .  #  .  #  .
        wG w weS e  e  .
        .  #  .  #  .  #
        .  .  .  .  .  .
        """,
        sensors={
            "w": {"name": "west", "detection": detection, "false_alarm": false_alarm},
            "e": {"name": "east", "detection": detection, "false_alarm": false_alarm},
        },
        goal_reward=0.2,
    )
    return world.problem(horizon, min_return=min_return, name="office-patrol")


_ROADS = (
    ("quay", "bridge"),
    ("quay", "square"),
    ("station", "bridge"),
    ("mill", "ring"),
    ("mill", "gate"),
    ("farm", "gate"),
    ("bridge", "square"),
    ("square", "ring"),
    ("ring", "gate"),
    ("bridge", "market"),
    ("square", "market"),
    ("ring", "market"),
    ("gate", "market"),
)


def courier_depots(*, horizon: int = 7, min_return: float | str | None = 3.0, jam: float = 0.15) -> Problem:
    """A courier hides whose depot it started from, from a rival who reads the plate cameras of the town.

    The story: a courier loads at one of four depots, quay and station (the harbour company) or mill and farm (the
    inland company), and drives along roads to the market. A drive is held up by traffic with probability `jam` and then
    stays where it was. In a place only the roads that leave it can be taken, and one can wait. Each decision taken at
    the market earns 1, discounted by 0.95: early is better.

    Who watches: a rival with plate cameras on the bridge (sees 8 cars in 10), in the centre (square and ring share one
    camera, 7 in 10) and at the market (9 in 10). It begins to watch after the courier has left (`sees_initial=False`).
    What is secret: `InitialState` with groups: which company's depot it was, not which of the two.
    """
    entries: list[tuple[str, str, str, float]] = []
    places = list(dict.fromkeys(place for road in reversed(_ROADS) for place in road))
    for place in places:
        entries.append((place, "wait", place, 1.0))
        for road in _ROADS:
            if place in road:
                other = road[1 - road.index(place)]
                entries += [(place, f"to {other}", other, 1 - jam), (place, f"to {other}", place, jam)]
    model = Model.from_entries(
        [entry for entry in entries if entry[3] > 0],
        {"market": 1.0},
        dict.fromkeys(("quay", "station", "mill", "farm"), 0.25),
        discount=0.95,
        state_names=places,
        action_names=["wait", *(f"to {place}" for place in places)],
    )
    cameras = {"bridge": ("bridge", 0.8), "square": ("centre", 0.7), "ring": ("centre", 0.7), "market": ("market", 0.9)}
    names = [_SILENT, "bridge", "centre", "market"]
    emissions = np.zeros((len(places), len(names)))
    emissions[:, 0] = 1
    for place, (camera, rate) in cameras.items():
        row = emissions[places.index(place)]
        row[[0, names.index(camera)]] = 1 - rate, rate
    muted = {camera: {camera: _SILENT} for camera in names[1:]}
    observer = Observer(emissions, names, sees_initial=False, silent=_SILENT, sensors=muted)
    secret = InitialState({"harbour": ["quay", "station"], "inland": ["mill", "farm"]})
    return Problem(model, observer, secret, horizon, min_return, name="courier-depots")


_SERVICES = ("web", "mail", "database")


def network_probe(*, horizon: int = 5, min_return: float | str | None = 1.5) -> Problem:
    """A host hides which service it is after, from a monitor that sees where its packets go and an alarm that rings.

    The story: a red-team host looks for a way into one of three services; it knows which one (`agent_knows`), and its
    credentials open a session there with probability 0.8 a probe, against 0.4 elsewhere. Reading can be done in a
    session only (the action is not available outside), pays 1 in the target's session and 0.1 elsewhere, and keeps the
    session with probability 0.7. A probe that fails ends outside.

    Who watches: a monitor that sees every action (the addresses of the packets are in clear, their content is not) and
    an intrusion alarm that rings in 25% of the steps in a session and in 5% outside.
    What is secret: `WhichModel`: which of the three services is the target. Decoy probes cost time.
    """
    observer = Observer(
        [[0.95, 0.05]] + [[0.75, 0.25]] * len(_SERVICES),
        ["quiet", "alarm"],
        sees_actions=True,
        silent="quiet",
        sensors={"alarm": {"alarm": "quiet"}},
    )
    models = [_host_after(target) for target in _SERVICES]
    secret = WhichModel(names=_SERVICES, agent_knows=True)
    return Problem(models, observer, secret, horizon, min_return, name="network-probe")


def _host_after(target: str) -> Model:
    entries: list[tuple[str, str, str, float]] = []
    rewards = {}
    for state in ("outside", *_SERVICES):
        for service in _SERVICES:
            opens = 0.8 if service == target else 0.4
            entries += [(state, f"probe {service}", service, opens), (state, f"probe {service}", "outside", 1 - opens)]
        if state != "outside":
            entries += [(state, "read", state, 0.7), (state, "read", "outside", 0.3)]
            rewards[state, "read"] = 1.0 if state == target else 0.1
    return Model.from_entries(entries, rewards, "outside", state_names=["outside", *_SERVICES])


# Door: the two rooms that it joins, and the room whose entry its badge reader guards; leaving is free.
_DOORS = {
    "front door": ("lobby", "hall", "hall"),
    "office door": ("hall", "office", "office"),
    "lab door": ("hall", "lab", "lab"),
    "back door": ("lab", "yard", "lab"),
    "garden path": ("yard", "lobby", None),
}


def badge_doors(
    *, horizon: int = 7, min_return: float | str | None = 1.9, detection: float = 0.95, agent_knows: bool = True
) -> Problem:
    """A robot hides whether it went to the lab and left through the back, from someone who reads the door logs.

    The story: a delivery robot starts in the lobby and moves among lobby, hall, office, lab and yard. An action is a
    door, which can be taken from the two rooms that it joins, or to wait; a door jams with probability 0.1. Decisions
    in the office pay 0.5 and in the lab 0.3, and ending in the lobby pays 1.

    Who watches: someone with the logs of the badge readers. A reader hangs on one side of a door only: entering the
    room that it guards is logged (19 times in 20), leaving is not, and the garden path has no reader. So what is
    logged depends on the action and the room that it led to: emissions on (action, next state).
    What is secret: `Automaton`: did the robot at any time go from the lab straight to the yard. The robot remembers
    how far it has come (`agent_knows`).
    """
    rooms = ["lobby", "hall", "office", "lab", "yard"]
    actions = [*_DOORS, "wait"]
    entries = [(room, "wait", room, 1.0) for room in rooms]
    readers = [door for door, (_, _, guarded) in _DOORS.items() if guarded]
    names = [_SILENT, *readers]
    emissions: Float[np.ndarray, "A S O"] = np.zeros((len(actions), len(rooms), len(names)))
    emissions[:, :, 0] = 1
    for door, (first, second, guarded) in _DOORS.items():
        for room, other in ((first, second), (second, first)):
            entries += [(room, door, other, 0.9), (room, door, room, 0.1)]
        if guarded:
            log = emissions[actions.index(door), rooms.index(guarded)]
            log[[0, names.index(door)]] = 1 - detection, detection
    model = Model.from_entries(
        entries,
        {"office": 0.5, "lab": 0.3},
        "lobby",
        terminal_rewards={"lobby": 1.0},
        state_names=rooms,
        action_names=actions,
    )
    observer = Observer(emissions, names, silent=_SILENT, sensors={door: {door: _SILENT} for door in readers})
    secret = Automaton(
        {
            ("before", "lab"): "in the lab",
            ("in the lab", "yard"): "out the back",
            ("in the lab", "elsewhere"): "before",
        },
        initial="before",
        accepting={"out the back"},
        labels={"lab": "lab", "yard": "yard"},
        default_label="elsewhere",
        otherwise="stay",
        agent_knows=agent_knows,
    )
    return Problem(model, observer, secret, horizon, min_return, name="badge-doors")


def convoy_checkpoint(
    *, horizon: int = 8, min_return: float | str | None = 0.45, time: int = 4, detection: float = 0.8
) -> Problem:
    """A convoy hides whether it stood on a crossing at hour 4, from lookouts who may go through their notes afterwards.

    The story: a relief convoy starts at one of two camps (S), crosses a river with a bridge in the north and a ford in
    the south, and supplies a town (G): 0.3 for each hour begun there. Tracks are bad: a move slips to either side with
    probability 0.05. At hour 4 a truce begins, and nobody is to be on the crossings then.

    Who watches: lookouts on two hills, `north` and `south`; each sees its bank and its crossing, 8 times in 10, and on
    the crossings both see it.
    What is secret: `StateAt(time=4)`: was the convoy on a crossing (`=`) at that hour. Notes taken later count as well.
    """
    world = GridWorld.from_ascii(
        """
        S  .  #  .  .
        .  n  =  n  .
        .  .  #  G  .
        .  s  =  s  .
        S  .  #  .  .
        """,
        sensors={
            "n": {"name": "north", "detection": detection},
            "s": {"name": "south", "detection": detection},
        },
        legend={"=": ["secret", "n", "s"]},
        goal_reward=0.3,
        slip=0.05,
    )
    secret = StateAt(time, [world.state(*cell) for cell in world.secrets])
    return world.problem(horizon, secret=secret, min_return=min_return, name="convoy-checkpoint")
