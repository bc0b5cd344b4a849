"""`veil.train`: an agent that hides a secret and earns its return, trained by steps alone against an observer that learns."""

from math import inf, isfinite
from pathlib import Path
from typing import Any

from ..common.checks import Defects, is_number
from ..common.clock import Clock, ProgressOption
from ..common.errors import InputError, MissingExtraError
from ..engine.return_range import threshold
from ..problem.problem import Problem
from .episodes import Hide, Observe, Playing, Watching
from .trained import Trained

_COUNTS = {
    "num_envs": 2,
    "iterations": 1,
    "evaluation_runs": 100,
    "hidden": 1,
    "seed": 0,
    "horizon": 1,
}  # and their least


def train(
    env: Any,
    secret: Hide | str | None = None,
    observe: Observe | str | None = None,
    min_return: float | None = None,
    *,
    horizon: int | None = None,
    problem: Problem | None = None,
    timed: bool = True,
    num_envs: int = 256,
    iterations: int = 400,
    time_limit: float | None = None,
    evaluation_runs: int = 20_000,
    hidden: int = 64,
    rate: float = 2e-3,
    confidence: float = 0.95,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: ProgressOption = None,
) -> Trained:
    """An agent that hides a secret at a sufficient return, trained through `step` alone; no model is needed.

    In each iteration the agent plays one episode in each environment. An observer, a recurrent network `q(z|y)`, is taught
    these runs. The agent earns `−log2 q(z|y)` at the end of the episode, and its rewards times a multiplier that rises while
    the mean return is below `min_return`. It is improved by proximal policy optimisation. With `q` the true posterior the
    first part is the opacity `H(Z|Y)`, and its gradient is that of the opacity.

    The answer is judged by a fresh observer: fitted to fresh runs of the finished agent, and measured on other fresh runs. This
    estimates the loss of that observer, which is at least the opacity, up to the error of the sample.

    **Arguments:**

    - `env`: the name of a Gymnasium environment, a function that makes one, a `gymnasium.vector.VectorEnv`, or a
      `veil.Problem`, which is then only stepped through; its own secret, observer, horizon and `min_return` are used where
      none are given.
    - `secret`: the secret of an episode, a function of a `Run` (`states`, `actions`, `rewards`, `infos`), or a key of the
      last info.
    - `observe`: what the observer receives at a time, a function of a `Step` (`state`, `action`, `time`, `info`, and `random`
      for noise), or a key of the info: a name, a whole number, None, or floats. The first reading is that of the first state.
    - `min_return`: the least mean return; None for none.
    - `horizon`: episodes are cut after this many steps; by default the environment's own limit.
    - `problem`: the model of the environment, if it is known: the true opacity and return are then reported too. Its states
      are those of the environment, in their order; more of them may follow.
    - `timed`: whether the agent knows the time.
    - `num_envs`: episodes of an iteration. `iterations`; `time_limit`: seconds after which training ends earlier.
    - `evaluation_runs`: fresh runs, of which two thirds are for the fresh observer and one third is measured.
    - `hidden`: units of each layer; `rate` of learning, which falls to a tenth. `confidence` of the intervals.
    - `seed`: of everything. The same seed gives the same agent on the same machine, if the environment obeys its seeds.
    - `checkpoint`: a file that is written every minute; `resume`: continue from it.
    - `progress`: as for `veil.solve`.

    **Returns:** a `Trained`.

    Cost: `num_envs · horizon` steps of the environment in each iteration, and about as much for the networks as for 10,000
    simple steps. JAX uses an accelerator if it finds one.

    **Raises:** `InputError`; `MissingExtraError` without `pip install 'veil[rl]'`; `CheckpointError`.
    """
    _check(locals())
    _check_extra()
    from .judge import judged
    from .search import Search, Settings

    playing = _playing(env, secret, observe, horizon, num_envs, problem)
    if min_return is None and isinstance(env, Problem):
        min_return = threshold(env)
    least = None if min_return is None else float(min_return)
    search = Search(playing, Settings(least, timed, num_envs, iterations, hidden, float(rate), seed))
    try:
        notes = search.run(Clock(time_limit, progress=progress), checkpoint, resume=resume)
        return judged(search, evaluation_runs, float(confidence), notes)
    finally:
        if playing.env is not env:
            playing.env.close()


def _check(given: dict[str, Any]) -> None:
    defects = Defects("train")
    for name, least in _COUNTS.items():
        if name == "horizon" and given[name] is None:
            continue
        if not isinstance(given[name], int) or isinstance(given[name], bool) or given[name] < least:
            defects.add(f"{name} is {given[name]!r}, expected a whole number, {least} or more")
    if given["min_return"] is not None and not (is_number(given["min_return"]) and isfinite(given["min_return"])):
        defects.add(f"min_return is {given['min_return']!r}, expected a finite number")
    if given["time_limit"] is not None and not (is_number(given["time_limit"]) and given["time_limit"] > 0):
        defects.add(f"time_limit is {given['time_limit']!r}, expected seconds, more than 0, or None for no limit")
    if not (is_number(given["rate"]) and 0 < given["rate"] < inf):
        defects.add(f"rate is {given['rate']!r}, expected a number above 0, such as 0.002")
    if not (is_number(given["confidence"]) and 0 < given["confidence"] < 1):
        defects.add(f"confidence is {given['confidence']!r}, expected a probability between 0 and 1")
    if given["resume"] and given["checkpoint"] is None:
        defects.add("resume needs checkpoint=…, the file to continue from")
    defects.raise_if_any()


def _check_extra() -> None:
    try:
        import gymnasium  # noqa: F401
        import jax  # noqa: F401
        import optax  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"veil.train needs {error.name}, which is not installed: pip install 'veil[rl]'"
        ) from None


_MEANING = {"secret": "must stay hidden of an episode", "observe": "the observer receives at a time"}


def _playing(
    env: Any, secret: Any, observe: Any, horizon: int | None, num_envs: int, problem: Problem | None
) -> Playing:
    """The environment and who watches, from the arguments of `train`."""
    from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

    from .simulated import READING, SECRET, Simulated

    if isinstance(env, Problem):
        if horizon not in (None, env.horizon) or problem is not None:
            raise InputError("train", ["a problem has its own horizon and model: change it by problem.replace(…)"])
        watching = Watching(SECRET if secret is None else secret, READING if observe is None else observe)
        known = env if secret is None and observe is None else None
        return Playing(Simulated(env, num_envs), env.horizon, watching, known)
    for name, given in (("secret", secret), ("observe", observe)):
        if given is None:
            raise InputError("train", [f"{name}=… is missing: say what {_MEANING[name]}"])
    made = env
    if not isinstance(env, VectorEnv):
        made = SyncVectorEnv([lambda: _made(env)] * num_envs)
    elif env.metadata.get("autoreset_mode") == AutoresetMode.DISABLED:
        raise InputError("train", ["the vector environment does not reset itself: make it with NEXT_STEP"])
    one = made.envs[0] if isinstance(made, SyncVectorEnv) else made
    limit = horizon or getattr(getattr(one, "spec", None), "max_episode_steps", None)
    if limit is None:
        raise InputError("train", ["the environment has no limit of steps: give horizon=…"])
    return Playing(made, int(limit), Watching(secret, observe), problem)


def _made(env: Any) -> Any:
    import gymnasium

    if callable(env):
        return env()
    if not isinstance(env, str):
        expected = "the name of an environment, a function that makes one, a VectorEnv or a Problem"
        raise InputError("train", [f"env is {env!r}, expected {expected}"])
    try:
        return gymnasium.make(env)
    except gymnasium.error.Error as error:
        raise InputError("train", [f"Gymnasium cannot make {env!r}: {error}"]) from None
