"""The texts of the starters and of the drawn problems of the gallery."""

_GRID = '''\
# A scenario of veil: a world, an observer, a secret, a horizon and the return that must be kept.
# Every key is explained in docs/scenario-reference.md.

name = "night-watch"
description = "A guard walks a round past two cameras, and hides whether the vault is guarded at the end."

horizon = 6          # the number of decisions
min_return = "70%"   # this share of the way from the smallest to the largest attainable return; or a number

[grid]
# One line a row, cells between blanks.  . floor   # wall   S start   G goal   ? secret   X keeps who enters
# Small letters are the sensors below; a cell may hold several characters.
drawing = """
  ?   .   c   G
  .   #   c   .
  S   .   d   dG
"""
goal_reward = 0.2    # for each decision taken in a goal
slip = 0.1           # a move goes to each side with this probability, else as intended
stay = true          # whether one may stay in place

[grid.sensors.c]
name = "north camera"
detection = 0.9      # it reports with this probability when the guard is in range,
false_alarm = 0.02   # and with this one when not

[grid.sensors.d]
name = "south camera"
detection = 0.8

# Further characters may be given a meaning:
# [grid.legend]
# "$" = { is = ["goal", "c"], reward = 0.5 }   # a goal of its own worth, in range of sensor c
# "A" = { is = "start", weight = 3 }           # three times as likely as a start S

[observer]
sees_actions = false   # whether the observer sees the moves too
sees_initial = true    # whether it watches from the start, or from the first move on

[secret]
kind = "last_state"    # is the last state a secret cell; others: initial_state, state_at, automaton, which_model

[solve]
memory = "timed"       # what the policy may depend on: "markov" (the state), "timed" (state and time), or a table
time_limit = 60        # seconds
seed = 0
'''

_GRAPH = """\
# A scenario of veil: a world, an observer, a secret, a horizon and the return that must be kept.
# Every key is explained in docs/scenario-reference.md.

name = "parcel"
description = "A courier hides which depot it came from, from a camera on the bridge."

horizon = 4          # the number of decisions
min_return = 0.9     # the expected return that must be kept; or a percentage as "80%"

[graph]
# Where it starts: one state, a list (equally likely), or a table of probabilities as { harbour = 0.3, mill = 0.7 }.
initial = ["harbour", "mill"]
discount = 0.95      # what a reward one step later is worth
# state, action, next state: for sure, or each with its probability. Actions without an entry cannot be chosen.
transitions = [
  ["harbour", "bridge", { bridge = 0.9, harbour = 0.1 }],
  ["harbour", "ferry", { market = 0.5, harbour = 0.5 }],
  ["mill", "bridge", { bridge = 0.9, mill = 0.1 }],
  ["mill", "lane", { market = 0.6, mill = 0.4 }],
  ["bridge", "on", "market"],
  ["market", "wait", "market"],
]

[graph.rewards]
market = 0.5         # for each decision taken there; or { wait = 0.5 } for one action only

[graph.terminal_rewards]
market = 0.1         # once, for the last state

[observer]
rest = "nothing"     # what a row leaves to 1, and every state that is not named

[observer.emissions]
bridge = { car = 0.8 }
market = { car = 0.1, parcel = 0.6 }

[secret]
kind = "initial_state"

[secret.groups]      # leave this out to ask for the very state
"the port" = ["harbour"]
inland = ["mill"]

[solve]
memory = "timed"
time_limit = 60      # seconds
"""

_FILE = """\
# A scenario of veil over a model that lies in a file beside this one.
# Every key is explained in docs/scenario-reference.md.

name = "imported"
horizon = 5          # the number of decisions
min_return = "50%"   # this share of the way from the smallest to the largest attainable return; or a number

[file]
path = "model.npz"   # .pomdp (Cassandra), .npz (NumPy), .drn, .prism; the file cannot lie outside this folder
# discount = 0.95    # in place of what the file says; likewise initial, rewards and terminal_rewards

[observer]           # in place of the file's own observations, if it has any
[observer.sensors.tower]
states = [0]         # names, indices, or { where = "x=3 & door=open" } where the states have variables
detection = 0.9
false_alarm = 0.05

[secret]
kind = "last_state"
states = [1]

[solve]
memory = "markov"
time_limit = 60      # seconds
"""

STARTERS = {"grid": _GRID, "graph": _GRAPH, "file": _FILE}

_PAPER_CELLS = """
  b  b  .  G  .  r
  .  .  .  ?  .  r
  .  .  .  .  .  .
  .  S  .  g  g  G
  y  .  ?  g  g  .
  y  .  .  .  ?  .
"""
_PAPER_CORNERS = """
  bS b  .  G  .  rS
  .  .  .  ?  .  r
  .  .  .  .  .  .
  .  .  .  g  g  G
  y  .  ?  g  g  .
  yS .  .  .  ?  S
"""
_LATER_WEST = """
  S   X  .    A    A   .
  DS  D  D    A?X  A   G
  DS  D  D    X    .   #
  S   #  E?X  BX   BG  C?X
  S   X  .    B    B   C
  S   .  .    B    B   CX
"""
_LATER_THREE = """
  S   X  .    A    A   .
  D   D  D    A?X  A   G
  D   D  D    X    .   #
  S   #  E?X  BX   BG  C?X
  .   X  .    B    B   C
  S   .  .    B    B   CX
"""


def _paper(cells: str, more: str = "", rates: str = "detection = 0.9", secret: str = "last_state") -> str:
    sensors = "".join(f"{sign} = {{ {rates} }}\n" for sign in "bryg")
    return (
        f'horizon = 10\nmin_return = 0.3\n\n[grid]\ndrawing = """{cells}"""\ngoal_reward = 0.1\n{more}\n'
        f'[grid.sensors]\n{sensors}\n[secret]\nkind = "{secret}"\n'
    )


def _later(cells: str, threshold: str, secret: str) -> str:
    sensors = "".join(f"{sign} = {{ detection = 0.85 }}\n" for sign in "ABCDE")
    return (
        f'horizon = 11\nmin_return = {threshold}\n\n[grid]\ndrawing = """{cells}"""\n'
        f"goals_pay_last = true   # s_11 pays as well\nstay = false\n\n"
        f'[grid.sensors]\n{sensors}\n[secret]\nkind = "{secret}"\n'
    )


GALLERY_GRIDS = {
    "paper-last-state": _paper(_PAPER_CELLS),
    "paper-initial-state": _paper(_PAPER_CORNERS, secret="initial_state"),
    "paper-false-alarms": _paper(
        _PAPER_CELLS,
        'readings = "single"   # at most one sensor reports a step\n',
        "detection = 0.9, false_alarm = 0.01",
    ),
    "later-last-state": _later(_LATER_WEST, "0.308", "last_state"),
    "later-initial-state": _later(_LATER_THREE, "0.6054", "initial_state"),
    "office-patrol": '''\
horizon = 7
min_return = 0.5

[grid]
drawing = """
  ?  ?  #   G  .  .
  ?  .  #   .  #  .
  wG w  weS e  e  .
  .  #  .   #  .  #
  .  .  .   .  .  .
"""
goal_reward = 0.2

[grid.sensors]
w = { name = "west", detection = 0.85, false_alarm = 0.02 }
e = { name = "east", detection = 0.85, false_alarm = 0.02 }

[secret]
kind = "last_state"
''',
    "convoy-checkpoint": '''\
horizon = 8
min_return = 0.45

[grid]
drawing = """
  S  .  #  .  .
  .  n  =  n  .
  .  .  #  G  .
  .  s  =  s  .
  S  .  #  .  .
"""
goal_reward = 0.3
slip = 0.05

[grid.legend]
"=" = ["secret", "n", "s"]   # a crossing, in range of both lookouts

[grid.sensors]
n = { name = "north", detection = 0.8 }
s = { name = "south", detection = 0.8 }

[secret]
kind = "state_at"
time = 4
''',
}
