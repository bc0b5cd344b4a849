"""First steps: load the paper's problem, measure a policy exactly, and see which observations reveal the secret."""

import time

import numpy as np

import veil

GRID = """
     0 1 2 3 4 5
  0  b b . G . r      b, r, y, g  ranges of four sensors, each detects with probability 0.9
  1  . . . ? . r      G           goals, 0.1 for each decision taken there
  2  . . . . . .      ?           secret cells: is the robot on one of them at the end?
  3  . S . g g G      S           start; moves slip to either side with probability 0.1
  4  y . ? g g .
  5  y . . . ? .
"""
BARS = " ▁▂▃▄▅▆▇█"


def bars(values: np.ndarray) -> str:
    """A line of bars, full height being one bit."""
    return "".join(BARS[min(8, round(8 * value))] for value in values)


def show(problem: veil.Problem, name: str, policy: veil.Policy) -> None:
    """Print what the observer learns under one policy."""
    begin = time.perf_counter()
    hidden = veil.opacity(problem, policy)
    milliseconds = 1e3 * (time.perf_counter() - begin)
    table = veil.measures.joint_table(problem, policy)
    print(f"\n{name}: return {veil.expected_return(problem, policy):.4f} (threshold {problem.min_return})")
    print(f"  {hidden}")
    print(f"  {hidden.method}, in {milliseconds:.1f} ms: {hidden.reason}")
    print(
        f"  remaining bits over time      {bars(veil.measures.bits_over_time(problem, policy))}  (t = 0 … {problem.horizon})"
    )
    print(f"  the observer's best guess is right with probability {table.guess_probability:.4f}")
    print(f"  P(posterior > 0.9) = {table.probability_surer(0.9):.4f}")
    costs = ", ".join(f"{sensor} {bits:.4f}" for sensor, bits in veil.measures.sensor_costs(problem, policy).items())
    print(f"  bits leaked through each sensor: {costs}")
    for sequence in table.revealing(2):
        seen = " ".join(map(str, sequence.observations))
        chance, posterior = sequence.probability, sequence.posterior["secret"]
        print(f"  revealing: {seen}  (probability {chance:.4f}, posterior of the secret {posterior:.3f})")


def main() -> None:
    """The paper's last-state problem: measured under the uniform policy, solved, and measured again."""
    print("veil", veil.__version__, "· the paper's last-state problem (its layout as reconstructed)")
    print(GRID)
    problem = veil.gallery.load("paper-last-state")
    show(problem, "Uniform policy", veil.MarkovPolicy.uniform(problem))
    solution = veil.solve(problem)
    print(f"\nSolved:\n{solution.summary()}")
    show(problem, "Solved policy", solution.policy)
    print("\nThe paper reports 0.930 bits at return 0.328, by sampled gradients on its own layout.")

    print("\nThe observer's posterior of the secret along one sequence, under the solved policy:")
    observer = veil.ObserverFilter(problem, solution.policy)
    for observation in ("0", "0", "g", "g", "0"):
        print(f"  sees {observation!r}: {observer.update(observation)[1]:.3f}")


if __name__ == "__main__":
    main()
