"""PRISM programs, built by Storm."""

from ..registry import Format, later

FORMAT = Format(
    (".prism", ".nm", ".pm"),
    "PRISM programs, through Storm",
    read_model=later("veil.formats.prism.files:from_prism"),
    options={
        "constants": "values of undefined constants, such as N=4",
        "reward_model": "the rewards to use, if there are several",
    },
    extra="prism",
)
