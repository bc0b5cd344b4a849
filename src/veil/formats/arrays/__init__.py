"""NumPy `.npz` files."""

from ..registry import Format, later

FORMAT = Format(
    (".npz",),
    "NumPy arrays",
    read_model=later("veil.formats.arrays.files:from_arrays"),
    write_model=later("veil.formats.arrays.files:save_arrays"),
    write_chain=later("veil.formats.arrays.files:chain_to_arrays"),
)
