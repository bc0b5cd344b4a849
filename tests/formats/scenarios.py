"""Small scenarios that load, from which the tests make those that do not."""

GRID = '''\
horizon = 4
min_return = "50%"

[grid]
drawing = """
  ?  .  c  G
  .  #  c  .
  S  .  d  .
"""
goal_reward = 0.2
slip = 0.1
stay = true

[grid.legend]
"$" = { is = ["goal", "c"], reward = 0.5 }

[grid.sensors.c]
name = "north"
detection = 0.9
false_alarm = 0.02

[grid.sensors.d]
detection = 0.8

[secret]
kind = "last_state"

[solve]
method = "ascent"
memory = "timed"
seed = 3
'''

GRAPH = """\
name = "parcel"
horizon = 3
min_return = 0.5

[graph]
initial = { harbour = 0.5, mill = 0.5 }
discount = 0.95
transitions = [
  ["harbour", "go", { bridge = 0.9, harbour = 0.1 }],
  ["mill", "go", "bridge", 0.9],
  ["mill", "go", "mill", 0.1],
  ["bridge", "go", "market"],
  ["market", "wait", "market"],
]

[graph.rewards]
market = 0.5
mill = { go = 0.1 }

[graph.terminal_rewards]
market = 0.1

[observer]
rest = "nothing"
sees_actions = false

[observer.emissions]
bridge = { car = 0.8 }
market = "parcel"

[secret]
kind = "initial_state"

[secret.groups]
port = ["harbour"]
inland = ["mill"]
"""

AUTOMATON = GRAPH.replace(
    'kind = "initial_state"\n\n[secret.groups]\nport = ["harbour"]\ninland = ["mill"]\n',
    """kind = "automaton"
initial = "no"
accepting = ["yes"]
default_label = "road"
otherwise = "stay"
transitions = [
  ["no", "bridge", "yes"],
]

[secret.labels]
bridge = "bridge"
""",
)

MODELS = """\
horizon = 2

[graph]
initial = "a"
transitions = [
  ["a", "go", { a = 0.5, b = 0.5 }],
  ["b", "go", "b"],
]

[[models]]
name = "plain"
weight = 1

[[models]]
name = "quick"
weight = 3
[models.graph]
transitions = [
  ["a", "go", { a = 0.1, b = 0.9 }],
  ["b", "go", "b"],
]

[observer.sensors.eye]
states = "b"
detection = 0.7

[secret]
kind = "which_model"
"""

ALL = {"grid": GRID, "graph": GRAPH, "automaton": AUTOMATON, "models": MODELS}
