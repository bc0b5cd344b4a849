"""The picture of docs/features.md: the paper's grid, the remaining uncertainty over time, the leakage through each sensor."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import veil
from veil.engine.chain import Chain
from veil.engine.compile import build

# Okabe and Ito's colours, which can be distinguished with all kinds of colour vision.
COLOURS = {"b": "#0072B2", "r": "#D55E00", "y": "#E69F00", "g": "#009E73"}
OUT = Path(__file__).parents[1] / "docs" / "figures" / "at-a-glance.png"


def draw_grid(axes: Axes, problem: veil.Problem, policy: veil.MarkovPolicy) -> None:
    """Sensor ranges as colours, roles as letters, the expected number of visits as the size of a dot."""
    visits = Chain(build(problem), policy.table, stationary=True).occupancies.sum(axis=0)
    observer, model = problem.observer, problem.model
    secret = {"r1c3", "r4c2", "r5c4"}
    for state, name in enumerate(model.states.all()):
        row, column = int(name[1]), int(name[3])
        seen = [o for o in range(1, observer.num_observations) if observer.emissions[state, o] > 0]
        colour = COLOURS[observer.observations[seen[0]]] if seen else "white"
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, alpha=0.35 if seen else 1, edgecolor="0.75"))
        axes.scatter(column + 0.5, row + 0.5, s=130 * visits[state], color="0.25", linewidths=0, zorder=2)
        roles = {"goal": model.rewards[state].max() > 0, "start": model.initial[state] > 0, "?": name in secret}
        label = next((role for role, there in roles.items() if there), "")
        axes.text(column + 0.06, row + 0.2, label, fontsize=8, weight="bold", va="center", zorder=3)
    axes.set(xlim=(0, 6), ylim=(6, 0), aspect="equal", xticks=[], yticks=[])
    axes.set_title("Where the solved policy spends its time", fontsize=10)


def main() -> None:
    """Compute and draw."""
    problem = veil.gallery.load("paper-last-state")
    policies = {"uniform": veil.MarkovPolicy.uniform(problem), "solved": veil.solve(problem, certificate=False).policy}
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    grid, over_time, cost = figure.subplots(1, 3, width_ratios=(1, 1.25, 1))
    draw_grid(grid, problem, policies["solved"])
    times = np.arange(problem.horizon + 1)
    for (name, policy), colour in zip(policies.items(), ("#999999", "#0072B2"), strict=True):
        bits = veil.measures.bits_over_time(problem, policy)
        prior = veil.opacity(problem, policy).prior_bits
        gained = veil.expected_return(problem, policy)
        over_time.plot(times, bits, "o-", color=colour, markersize=4, label=f"{name}: return {gained:.3f}")
        over_time.axhline(prior, color=colour, linestyle=":", linewidth=1)
        over_time.annotate(f"{bits[-1]:.3f}", (times[-1], bits[-1]), (0, -14), textcoords="offset points", ha="center")
    over_time.set(ylim=(0, 1.02), xlabel="time t", ylabel="H(Z | o₀ … oₜ), bits")
    over_time.set_title("Remaining uncertainty over time (dotted: prior)", fontsize=10)
    over_time.legend(frameon=False, loc="center", bbox_to_anchor=(0.5, 0.62))
    costs = veil.measures.sensor_costs(problem, policies["solved"])
    cost.bar(list(costs), [1e3 * bits for bits in costs.values()], color=[COLOURS[name] for name in costs], alpha=0.8)
    cost.set(xlabel="sensor", ylabel="millibits, solved policy")
    cost.set_title("Information leaked through each sensor", fontsize=10)
    for axes in (over_time, cost):
        axes.spines[["top", "right"]].set_visible(False)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT, dpi=110, metadata={"Software": None})
    print("wrote", OUT)


if __name__ == "__main__":
    main()
