"""Readings that are wrong with some probability."""

from dataclasses import dataclass

import numpy as np

from ...common.checks import is_number
from ...common.errors import InputError, TooLargeError
from ..keys import Key
from ..model import Model
from ..observer import Observer
from .feature import ObserverFeature

_MOST_NUMBERS = 2**26  # of a dense table of errors: 512 MiB


@dataclass(frozen=True)
class Noise(ObserverFeature):
    """A reading is replaced by another observation with a given probability, all others equally likely."""

    kind = "noise"
    keys = (
        Key(
            "noise",
            float,
            "Probability that a reading is replaced by another observation, all others equally likely.",
            0.0,
            least=0,
            most=1,
        ),
    )

    noise: float

    def __post_init__(self) -> None:
        if not is_number(self.noise) or not 0 <= self.noise <= 1:
            raise InputError("noise", [f"share is {self.noise!r}, expected a probability in [0, 1]"])

    def apply(self, observer: Observer, model: Model, horizon: int) -> Observer:
        """The observer behind the channel; raises `InputError` if it has one observation, `TooLargeError` beyond 512 MiB."""
        size = observer.num_observations
        if not self.noise:
            return observer
        if size < 2:
            raise InputError("noise", [f"the observer has {size} observation, expected two or more to confuse"])
        if size * size > _MOST_NUMBERS:
            raise TooLargeError(
                f"errors among {size} observations would take {size * size * 8 / 2**30:.1f} GiB, expected at most"
                f" {_MOST_NUMBERS * 8 / 2**30:.1f}: let the observer see less, in fewer observations"
            )
        channel = np.full((size, size), self.noise / (size - 1))
        np.fill_diagonal(channel, 1 - self.noise)
        return observer.garbled(channel, observer.observations.all())
