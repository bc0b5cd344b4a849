"""What a state is for the agent: a goal, where the return is earned, or an absorbing state without reward."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from ..engine.compile import reachable_states
from ..problem.model import Model
from ..problem.problem import Problem

_ROUNDING = 1e-9


def goals_and_traps(problem: Problem) -> tuple[Bool[np.ndarray, " S"], Bool[np.ndarray, " S"]]:
    """Masks of the goals and of the absorbing states without reward, in any of the models.

    A goal is a state that pays for a decision in it or at the end. Where a reward is explained by entering an absorbing state,
    as imported models have it that pay for the last step, that state is the goal and not its neighbours. Where every step
    costs and nothing pays, the absorbing states that cost no more than a step are the goals.
    """
    found = [_of_model(model) for model in problem.models]
    goals = np.any([one for one, _ in found], axis=0)
    return goals, np.any([two for _, two in found], axis=0) & ~goals


def _of_model(model: Model) -> tuple[np.ndarray, np.ndarray]:
    rewards = np.where(model.available, model.rewards, 0.0)
    staying = np.all([matrix.diagonal() >= 1 - _ROUNDING for matrix in model.matrices], axis=0)
    silent = staying & (np.abs(rewards).max(axis=1) <= _ROUNDING) & (np.abs(model.terminal_rewards) <= _ROUNDING)
    ends = np.flatnonzero(silent)
    paid = np.maximum(np.where(model.available, rewards, -np.inf).max(axis=1), model.terminal_rewards)
    if not len(ends):
        return paid > 0, silent
    entering = [sp.csc_array(matrix)[:, ends] for matrix in model.matrices]
    reached = np.isin(np.arange(model.num_states), reachable_states(list(model.matrices), model.initial))
    acting = model.available & (reached & ~silent)[:, None]
    usual = _usual_reward(acting, rewards, entering)
    worth = _worth_of_entering(acting, rewards - usual, entering)
    earned = np.where(np.isfinite(worth), np.maximum(worth, 0.0), 0.0)
    unexplained = np.stack([rewards[:, a] - one @ earned for a, one in enumerate(entering)], axis=1)
    left = np.where(model.available, unexplained, -np.inf).max(axis=1)
    goals = (np.maximum(left, model.terminal_rewards) > _ROUNDING) & ~silent
    best = worth > _ROUNDING
    if not goals.any() and not best.any() and usual < 0:
        best = np.isfinite(worth) & (worth >= -_ROUNDING)
    goals[ends[best]] = True
    return goals, silent & ~goals if goals.any() else np.zeros_like(silent)


def _usual_reward(acting: np.ndarray, rewards: np.ndarray, entering: list[sp.csc_array]) -> float:
    """The reward of a step that ends nothing, where it is a cost; 0 otherwise."""
    plain = np.stack([np.asarray(one.sum(axis=1)).ravel() == 0 for one in entering], axis=1)
    chosen = rewards[plain & acting]
    return min(0.0, float(np.median(chosen))) if len(chosen) else 0.0


def _worth_of_entering(
    acting: np.ndarray, rewards: np.ndarray, entering: list[sp.csc_array]
) -> Float[np.ndarray, " k"]:
    """For each ending state, the least reward per probability of entering it; inf where nothing enters it."""
    worth = np.full(len(entering[0].indptr) - 1, np.inf)
    for action, matrix in enumerate(entering):
        entries = matrix.tocoo()
        kept = (entries.data > 0) & acting[entries.row, action]
        np.minimum.at(worth, entries.col[kept], rewards[entries.row[kept], action] / entries.data[kept])
    return worth
