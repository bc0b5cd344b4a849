"""Classic problems: hallway is made from its published layout, the others are files in `data`."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
TURNS = ("north", "east", "south", "west")
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))


def hallway() -> str:
    """Hallway (Littman, Cassandra and Kaelbling 1995): 15 cells times 4 directions, a corridor with four alcoves.

    A reconstruction from the published layout and rates, not the file of the collection, whose numbers are rounded to six
    digits. Walls are seen with 0.9 where they are and with 0.05 where they are not; facing an alcove from the corridor,
    the agent knows for certain which one it is; the last is the goal, after which the agent starts anew.
    """
    cells = [(0, column) for column in range(11)] + [(1, column) for column in (2, 4, 6, 8)]
    index = {cell: number for number, cell in enumerate(cells)}
    goal, landmarks = index[1, 8], {(0, 2): 16, (0, 4): 17, (0, 6): 18, (0, 8): 19}
    lines = [
        "discount: 0.95",
        "values: reward",
        "states: 60",
        "actions: stay forward turn-right turn-around turn-left",
        "observations: 21",
        "start exclude: " + " ".join(str(4 * goal + turn) for turn in range(4)),
    ]
    lines += [f"T: * : {4 * goal + turn} reset" for turn in range(4)]
    for cell, number in index.items():
        if number == goal:
            continue
        for facing in range(4):
            for name, law in _hallway_moves(index, cell, facing).items():
                state = 4 * number + facing
                lines += [f"T: {name} : {state} : {target} {chance!r}" for target, chance in sorted(law.items())]
    for cell, number in index.items():
        for facing in range(4):
            state = 4 * number + facing
            if number == goal:
                lines.append(f"O: * : {state} : 20 1.0")
            elif cell in landmarks and TURNS[facing] == "south":
                lines.append(f"O: * : {state} : {landmarks[cell]} 1.0")
            else:
                lines += [f"O: * : {state} : {o} {p!r}" for o, p in enumerate(_hallway_walls(index, cell, facing))]
    lines += [f"R: * : * : {4 * goal + turn} : * 1.0" for turn in range(4)]
    return "\n".join(lines) + "\n"


def _hallway_moves(index: dict, cell: tuple[int, int], facing: int) -> dict[str, dict[int, float]]:
    here = 4 * index[cell]
    forward = {here + facing: 1.0}
    for turn, chance in ((0, 0.8), (1, 0.05), (2, 0.05), (3, 0.05)):
        direction = (facing + turn) % 4
        target = index.get((cell[0] + STEPS[direction][0], cell[1] + STEPS[direction][1]))
        if target is None:
            continue
        forward[here + facing] = round(forward[here + facing] - chance, 12)
        # Slipping backwards the agent may or may not turn round; sideways it does turn.
        for new in {direction, facing} if turn == 2 else {direction}:
            forward[4 * target + new] = chance / 2 if turn == 2 else chance
    laws: dict[str, dict[int, float]] = {"stay": {here + facing: 1.0}, "forward": forward}
    for name, by_turn in (
        ("turn-right", (0.1, 0.7, 0.1, 0.1)),
        ("turn-around", (0.1, 0.15, 0.6, 0.15)),
        ("turn-left", (0.1, 0.1, 0.1, 0.7)),
    ):
        laws[name] = {here + (facing + turn) % 4: chance for turn, chance in enumerate(by_turn)}
    return laws


def _hallway_walls(index: dict, cell: tuple[int, int], facing: int) -> list[float]:
    """The probability of each set of walls: bits ahead (8), right (4), behind (2), left (1)."""
    rates = []
    for turn in range(4):
        step = STEPS[(facing + turn) % 4]
        rates.append(0.05 if (cell[0] + step[0], cell[1] + step[1]) in index else 0.9)
    law = [1.0]
    for rate in rates:
        law = [chance * way for chance in law for way in (1 - rate, rate)]
    return law


def classic(name: str) -> str:
    """The text of a problem: made here, or as its file in `data` has it."""
    return hallway() if name == "hallway" else (DATA / f"{name}.pomdp").read_text("utf-8")
