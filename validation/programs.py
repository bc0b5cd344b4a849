"""Small published models: program P1, the Crowds protocol, a smart meter, rate-distortion, and dynamic masks."""

import itertools

import numpy as np
import scipy.sparse as sp

import veil


def program_p1() -> veil.Problem:
    """`l:=0; ((if l=1 then l:=h else skip) || l:=1); l:=2` with h of two bits, a uniform scheduler, and l public.

    A state is (h, l, what is left to do): both threads, one of them, the last assignment, or nothing. It begins with l = 0.
    """
    left = ("both", "if", "one", "last", "done")
    states: list[tuple[int, int, str]] = list(itertools.product(range(4), range(4), left))
    number = {state: place for place, state in enumerate(states)}
    transitions = np.zeros((len(states), 1, len(states)))
    for (h, low, todo), place in number.items():
        tested = h if low == 1 else low
        choices: dict[str, list[tuple[int, str]]] = {
            "both": [(tested, "one"), (1, "if")],
            "if": [(tested, "last")],
            "one": [(1, "last")],
            "last": [(2, "done")],
            "done": [(low, "done")],
        }
        for low_next, todo_next in choices[todo]:
            transitions[place, 0, number[h, low_next, todo_next]] += 1 / len(choices[todo])
    initial = {number[h, 0, "both"]: 0.25 for h in range(4)}
    names = [f"h={h},l={low},{todo}" for h, low, todo in states]
    shown = np.eye(4)[[low for _, low, _ in states]]
    model = veil.Model(transitions, np.zeros(len(states)), initial, state_names=names)
    groups = {f"h={h}": [place for place, (value, _, _) in enumerate(states) if value == h] for h in range(4)}
    return veil.Problem(model, veil.Observer(shown), veil.InitialState(groups), horizon=3)


def crowds(honest: int, corrupt: int, forwarding: float, horizon: int, *, untimed: bool) -> veil.Problem:
    """Crowds: a member hands the message to a random member, who forwards it with a probability or delivers it.

    The first member always forwards. The observer learns who handed the message to a corrupt member, or nothing. States:
    the honest holders, a corrupt member who got it from one of them, and the end.
    """
    size, members = 2 * honest + 1, honest + corrupt
    transitions = np.zeros((size, 1, size))
    first = np.zeros((honest, size))
    first[:, :honest] = 1 / members
    first[np.arange(honest), honest + np.arange(honest)] = corrupt / members
    # Who starts forwards at once: the chain begins one step later, with what the starter's first step leads to.
    transitions[:honest, 0] = forwarding * first
    transitions[:honest, 0, size - 1] = 1 - forwarding
    transitions[honest:, 0, size - 1] = 1.0
    starters = [f"starter {number}" for number in range(honest)]
    whole = np.zeros((size + honest, 1, size + honest))
    whole[:size, :, :size], whole[size:, 0, :size] = transitions, first
    shown = np.zeros((size + honest, honest + 1))
    shown[:, honest] = 1.0
    shown[honest : 2 * honest] = np.eye(honest + 1)[:honest]
    names = [f"member {number}" for number in range(honest)] + [f"seen {number}" for number in range(honest)]
    model = veil.Model(
        whole,
        np.zeros(size + honest),
        dict.fromkeys(starters, 1 / honest),
        state_names=[*names, "end", *starters],
    )
    seen = [f"from {number}" for number in range(honest)]
    observer = veil.Observer(shown, [*seen, "nothing"], silent="nothing", untimed=untimed)
    return veil.Problem(model, observer, veil.InitialState(), horizon)


def crowds_bits(honest: int, corrupt: int, forwarding: float) -> float:
    """The closed form for a uniform starter and no time limit, as in libqif's example, without a clock."""
    members = honest + corrupt
    # From any honest member: caught by a corrupt one with the handing member i, in the long run.
    step = forwarding * np.full((honest, honest), 1 / members)
    visits = np.linalg.inv(np.eye(honest) - step)  # of holders, from the second on
    first = np.full((honest, honest), 1 / members)
    caught = corrupt / members * (np.eye(honest) + forwarding * first @ visits)
    channel = np.column_stack([caught, 1 - caught.sum(axis=1)])
    joint = channel / honest
    posterior = joint / joint.sum(axis=0)
    return float(-np.sum(joint * np.log2(np.where(posterior > 0, posterior, 1.0))))


def smart_meter(steps: int) -> veil.Problem:
    """Fair binary demand, a battery of one unit: the observer sees what is drawn from the grid at each step.

    The secret is the whole demand and the first charge, so a state is (demands, charge, time). The agent draws 0 or 1
    units wherever the battery allows it.
    """
    demands = 2**steps
    charge, time = np.meshgrid(np.arange(2), np.arange(steps + 1), indexing="ij")
    cells = [(int(c), int(t)) for c, t in zip(charge.ravel(), time.ravel(), strict=True)]
    size = demands * len(cells)
    number = {cell: place for place, cell in enumerate(cells)}
    rows: list[list[int]] = [[], []]
    columns: list[list[int]] = [[], []]
    for demand in range(demands):
        for (held, now), place in number.items():
            source = demand * len(cells) + place
            if now == steps:
                rows[0].append(source)
                columns[0].append(source)
                continue
            for drawn in range(2):
                after = held + drawn - (demand >> now & 1)
                if after in (0, 1):
                    rows[drawn].append(source)
                    columns[drawn].append(demand * len(cells) + number[after, now + 1])
    matrices = [sp.csr_array((np.ones(len(r)), (r, c)), shape=(size, size)) for r, c in zip(rows, columns, strict=True)]
    available = np.stack([np.diff(matrix.indptr) > 0 for matrix in matrices], axis=1)
    initial = {d * len(cells) + number[c, 0]: 1 / (2 * demands) for d in range(demands) for c in range(2)}
    model = veil.Model(matrices, np.zeros((size, 2)), initial, available=available)
    observer = veil.Observer(sp.csr_array(np.ones((size, 1))), sees_actions=True, sees_initial=False)
    return veil.Problem(model, observer, veil.InitialState(), steps)


def rate_distortion(letters: int, distortion: float) -> veil.Problem:
    """The agent knows X, uniform, and acts once; the observer sees the action, which must be right but for a share."""
    transitions = np.tile(np.eye(letters)[:, None, :], (1, letters, 1))
    model = veil.Model(transitions, np.eye(letters), np.full(letters, 1 / letters))
    observer = veil.Observer(np.ones((letters, 1)), sees_actions=True, sees_initial=False)
    return veil.Problem(model, observer, veil.InitialState(), 1, min_return=1 - distortion)


def hidden_by_rate_distortion(letters: int, distortion: float) -> float:
    """`H(X) − R(D) = h(D) + D log2(M − 1)` for a uniform source and Hamming distortion."""
    share = np.array([distortion, 1 - distortion])
    return float(-np.sum(share * np.log2(share)) + distortion * np.log2(letters - 1))


def dynamic_masks(budget: float) -> veil.Problem:
    """Sensors R on state 1, G on 3, P on 4, B on 6, each silent with probability 0.15; the agent masks one at a time.

    A state is (place, mask that is on); an action is the next mask. The secret: is the last place 4 or 6?
    """
    places, masks, cost = 7, ("none", "R", "G", "P", "B"), (0.0, 10.0, 10.0, 10.0, 30.0)
    sensor = {1: 1, 3: 2, 4: 3, 6: 4}
    following = {0: (1, 2, 3), 1: (4,), 2: (5,), 3: (6,), 4: (4,), 5: (5,), 6: (6,)}
    size = places * len(masks)
    transitions, rewards = np.zeros((size, len(masks), size)), np.zeros((size, len(masks)))
    shown = np.zeros((size, len(masks)))  # what is read: nothing, R, G, P, B
    for place, mask in itertools.product(range(places), range(len(masks))):
        source, seen = place * len(masks) + mask, sensor.get(place, 0)
        read = 0.85 if seen and seen != mask else 0.0
        shown[source, seen] += read
        shown[source, 0] += 1 - read
        for chosen in range(len(masks)):
            rewards[source, chosen] = -cost[chosen] * (0.5 if chosen == mask else 1.0)
            for target in following[place]:
                transitions[source, chosen, target * len(masks) + chosen] += 1 / len(following[place])
    names = [f"{place}/{mask}" for place in range(places) for mask in masks]
    model = veil.Model(transitions, rewards, "0/none", state_names=names, action_names=masks)
    observer = veil.Observer(shown, ["nothing", "R", "G", "P", "B"], sees_actions=True)
    secret = veil.LastState([name for name in names if name[0] in "46"])
    return veil.Problem(model, observer, secret, 2, min_return=-budget)
