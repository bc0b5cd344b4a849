"""The feature `duty`: an observer that is switched on for a part of each period."""

from dataclasses import dataclass

from veil import InputError, Model, Observer
from veil.problem.observers import Key, ObserverFeature


@dataclass(frozen=True)
class Duty(ObserverFeature):
    """Receives something only in the first steps of each period, from time 0 on."""

    kind = "duty"
    keys = (
        Key("period", int, "Steps of a period.", least=1, most=100_000),
        Key("on", int, "How many of them it is switched on for.", 1, least=1, most=100_000),
    )

    period: int
    on: int = 1

    def apply(self, observer: Observer, model: Model, horizon: int) -> Observer:
        """See `ObserverFeature`."""
        if self.on > self.period:
            raise InputError("duty", [f"on is {self.on}, expected at most the period, {self.period}"])
        return observer.replace(times=[time for time in range(horizon + 1) if time % self.period < self.on])
