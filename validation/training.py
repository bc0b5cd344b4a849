"""Agents that are trained by steps alone: `python -m validation.training CASE SEED …`, with cases `grid`, `taxi`, `pole`.

The figures of `docs/training.md` are from seeds 0, 1 and 2 of each; a few minutes of one core each.
"""

import argparse
import time
from collections.abc import Callable

import veil
from veil.training.episodes import Run, Step

STOPS = ("R", "G", "Y", "B")


def grid(seed: int) -> veil.Trained:
    """The paper's grid through `step` alone; its model gives the true values."""
    return veil.train(veil.gallery.load("paper-last-state"), seed=seed, progress=False)


def taxi(seed: int) -> veil.Trained:
    """Where the passenger goes is secret; the observer hears in which half the taxi drives, wrongly one time in ten."""
    table = veil.from_gymnasium("Taxi-v4", observe=lambda state: "north" if state // 100 < 2 else "south", noise=0.1)
    groups = {stop: table.states_where(f"destination={stop}") for stop in STOPS}
    problem = table.problem(veil.InitialState(groups=groups), horizon=25)

    def observe(step: Step) -> str:
        return "north" if (step.state // 100 < 2) != (step.random.random() < 0.1) else "south"

    def secret(run: Run) -> str:
        return STOPS[run.states[0] % 4]

    return veil.train("Taxi-v4", secret, observe, -25.0, horizon=25, problem=problem, seed=seed, progress=False)


def pole(seed: int) -> veil.Trained:
    """Continuous: on which side a cart ends is secret while it balances a pole, whose angle is read with an error of 0.05."""

    def observe(step: Step) -> float:
        return float(step.state[2] + 0.05 * step.random.standard_normal())

    def secret(run: Run) -> str:
        return "right" if run.states[-1][0] > 0 else "left"

    return veil.train("CartPole-v1", secret, observe, 36.0, horizon=40, seed=seed, progress=False)


CASES: dict[str, Callable[[int], veil.Trained]] = {"grid": grid, "taxi": taxi, "pole": pole}


def main() -> None:
    """Train each case with each seed, and print a row of the table."""
    parser = argparse.ArgumentParser(prog="python -m validation.training", description=main.__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("seeds", type=int, nargs="+")
    asked = parser.parse_args()
    for seed in asked.seeds:
        begin = time.process_time()
        found = CASES[asked.case](seed)
        loss, paid = found.loss_bits, found.expected_return
        true = "-" if found.opacity is None else f"{found.opacity.value}, {found.true_return:.4g}"
        estimates = f"{loss.value:.4f} ({loss.low:.4f} to {loss.high:.4f}) of {found.prior_bits:.4f}, {paid.value:.4g}"
        seconds = time.process_time() - begin
        print(
            f"{asked.case}, seed {seed}: loss {estimates}; true {true}; {seconds:.0f} s of processor time", flush=True
        )


if __name__ == "__main__":
    main()
