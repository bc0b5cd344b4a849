"""Run combinations and sort what comes back: answered, refused with a reason, or failed."""

import collections
import re
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field

import veil

from .calls import Wrong, ask
from .cases import random_case
from .limits import reason_of, reasons
from .sample import Combination


@dataclass
class Tally:
    """What came back: numbers of answers, refusals by reason, and failures with the line that repeats them."""

    answered: int = 0
    refused: collections.Counter = field(default_factory=collections.Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: collections.defaultdict(list))
    unlisted: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: collections.defaultdict(float))

    @property
    def count(self) -> int:
        """How many combinations were run."""
        return self.answered + sum(self.refused.values()) + len(self.unlisted) + len(self.failed)

    def text(self, examples: int = 3) -> str:
        """The shares, then every failure."""
        refusals = sum(self.refused.values()) + len(self.unlisted)
        share = refusals / max(self.count, 1)
        lines = [f"{self.count:,} combinations: {self.answered:,} answered, {refusals:,} refused ({share:.1%}),"
                 f" {len(self.failed):,} failed"]  # fmt: skip
        lines += [f"  {number / self.count:6.2%} {phrase}" for phrase, number in self.refused.most_common()]
        groups = collections.defaultdict(list)
        for text, message in self.unlisted:
            groups[_plain(message)].append(text)
        for message, texts in sorted(groups.items(), key=lambda item: -len(item[1])):
            lines.append(f"  {len(texts) / self.count:6.2%} NOT LISTED ({len(texts)}): {message}")
            lines += [f"          {text}" for text in texts[:examples]]
        for text, message in self.failed:
            lines.append(f"FAILED {text}\n    {message}")
        return "\n".join(lines)


def _plain(message: str) -> str:
    """A message without its numbers and names, to count equal ones together."""
    return re.sub(r"'[^']*'|\d+(\.\d+)?", "…", " ".join(message.split()))[:240]


def run(combinations: Iterable[Combination], tally: Tally | None = None, seconds: float | None = None) -> Tally:
    """Run combinations; with `seconds`, until the time is over."""
    tally, known, began = tally or Tally(), reasons(), time.monotonic()
    for one in combinations:
        if seconds is not None and time.monotonic() - began > seconds:
            break
        start = time.monotonic()
        try:
            ask(random_case(dict(one.features), one.seed, one.call == "sensor_costs"), one.call)
            tally.answered += 1
        except Wrong as error:
            tally.failed.append((one.text, f"wrong: {error}"))
        except veil.VeilError as error:
            reason = reason_of(" ".join(str(error).split()), known)
            if reason is None:
                tally.unlisted.append((one.text, f"{type(error).__name__}: {error}"))
            else:
                tally.refused[reason] += 1
                tally.examples[reason].append(one.text)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            where = " < ".join(f"{frame.filename.rpartition('veil/')[2]}:{frame.lineno}" for frame in reversed(frames))
            tally.failed.append((one.text, f"crash: {type(error).__name__}: {str(error)[:200]} at {where}"))
        tally.seconds[one.call] += time.monotonic() - start
    return tally
