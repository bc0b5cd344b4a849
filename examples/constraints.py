"""A delivery robot with a task, a safety rule and an energy budget, all kept while its depot stays secret."""

import veil

SCENARIO = """
horizon = 8
min_return = 0.5

[grid]
drawing = '''
  S   .   c   G
  .   L   c   .
  ?   .   .   ?
'''
slip = 0.05
goal_reward = 0.3

[grid.legend]
L = "floor"

[grid.sensors.c]
name = "camera"

[[rewards.energy]]
reward = 1.0

[[rewards.energy]]
action = "stay"
reward = -1.0

[[constraints]]
reward = "energy"
max = 6

[[constraints]]
formula = "G !lava"
min = 0.9
labels.lava = { drawn = "L" }
"""


def main() -> None:
    """Solve the problem, print every constraint with its price, and show how a conflict is explained."""
    from veil.formats.scenario.load import read_scenario

    problem = read_scenario(SCENARIO).problem
    solution = veil.solve(problem, memory="timed", certificate=False, seed=0)
    print(solution.summary())
    strict = [veil.Return(max=2, reward="energy"), veil.Return(min=1.0)]
    try:
        veil.solve(problem.replace(min_return=None, constraints=strict))
    except veil.InfeasibleError as error:
        print(error)


if __name__ == "__main__":
    main()
