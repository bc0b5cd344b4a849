"""Storm's explicit DRN files, read and written."""

from ..registry import Format, later

FORMAT = Format(
    (".drn",),
    "Storm's explicit models (DRN)",
    read_model=later("veil.formats.drn.files:from_drn"),
    write_model=later("veil.formats.drn.files:save_drn"),
    write_chain=later("veil.formats.drn.files:chain_to_drn"),
    options={"reward_model": "the rewards to use, if there are several"},
)
