"""Policies as files: safetensors, and text in JSON and CSV that people and other programs can read."""

from ..registry import Format, later

SAFETENSORS = Format(
    (".safetensors",),
    "policies (safetensors)",
    read_policy=later("veil.formats.policies.files:read_safetensors"),
    write_policy=later("veil.formats.policies.files:write_safetensors"),
)
JSON = Format(
    (".json",),
    "policies as JSON",
    read_policy=later("veil.formats.policies.text:policy_from_json"),
    write_policy=later("veil.formats.policies.text:policy_to_json"),
)
CSV = Format(
    (".csv",),
    "policies as CSV",
    read_policy=later("veil.formats.policies.text:policy_from_csv"),
    write_policy=later("veil.formats.policies.text:policy_to_csv"),
)
PLAYER = Format(
    (".py",),
    "players for robots (Python without dependencies)",
    write_policy=later("veil.formats.policies.player_file:write_player"),
)
