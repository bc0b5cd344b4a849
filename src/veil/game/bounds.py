"""What an enclosure of a game finds: a policy, a proven lower bound on what it hides, and upper bounds over all policies."""

from dataclasses import dataclass

from ..policy.history import HistoryPolicy
from ..problem.problem import Problem
from .ascent import GameResult
from .windows import lasting


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds on the largest objective over all policies that meet the constraints.

    `lower`: what the policy of the game `best` is proven to hide from an observer who remembers everything, its task added; 0
    bits or -inf where nothing is known; `upper` is that of `games[0]`. `games`: those whose rules and prices prove upper
    bounds over all policies, the best of each kind of memory, smallest bound first. `stopped`: why the search ended.
    """

    lower: float
    best: GameResult
    games: tuple[GameResult, ...]
    stopped: str
    seconds: float

    @classmethod
    def of(cls, game: GameResult) -> "Bounds":
        """Those of one game whose observer remembers everything."""
        return cls(
            game.lower if game.is_whole and game.is_exact else game.task_value,
            game,
            (game,),
            game.stopped,
            game.seconds,
        )

    @property
    def upper(self) -> float:
        """The smallest upper bound over all policies."""
        return self.games[0].upper

    @property
    def gap(self) -> float:
        """Upper minus lower bound, in bits."""
        return self.upper - self.lower

    @property
    def is_exact(self) -> bool:
        """Whether `lower` is what the policy hides, and not only a bound on it."""
        return self.best.is_whole and self.best.is_exact

    def policy(self, problem: Problem) -> HistoryPolicy:
        """The best policy known, over the whole horizon of the problem."""
        return lasting(problem, self.best.policy())
