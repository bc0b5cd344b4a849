"""The file formats: what each of them can read and write, found by the extension of a file's name.

A new format is one module with a `Format`, and one line in `FORMATS`; another package adds its own through the entry points
`veil.formats`. Scenario files, `veil convert`, `veil.load_policy`, `Imported.save`, messages and documents all ask here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import InputError, PluginError
from ..common.registry import Registry

if TYPE_CHECKING:
    from ..policy.policy import Policy
    from ..problem.problem import Problem
    from .imported import Imported

# What a format may be able to do, in the words of messages and tables.
ABILITIES = {
    "read_problem": "read a scenario",
    "write_problem": "write a scenario",
    "read_model": "read a model",
    "write_model": "write a model",
    "write_chain": "write the chain of a policy",
    "read_policy": "read a policy",
    "write_policy": "write a policy",
}


@dataclass(frozen=True)
class Format:
    """A file format.

    **Attributes:** all functions raise `VeilError` for a file that is wrong, and write complete files or none.

    - `suffixes`: the extensions of its files, in lower case with their dots: `(".prism", ".nm")`.
    - `description`: what its files are, in a few words.
    - `read_problem(path)`, a `Problem`; `write_problem(path, problem)`.
    - `read_model(path, **options)`, an `Imported`; `write_model(path, imported)`, which returns notes on what the format
      cannot express and the file leaves out.
    - `write_chain(path, problem, policy)`: the Markov chain that a policy induces.
    - `read_policy(path, problem)`, where the problem may be None; `write_policy(path, problem, policy)`.
    - `options`: what `read_model` takes beside the path, by name, each with what it is: set by a scenario's `[file]` table
      and by `--set file.NAME=VALUE`.
    - `extra`: the extra of the package that it needs, as in `pip install 'veil[prism]'`.
    - `reads_beside`: whether its file names further files, such as an image; `read_model` then takes `folder=`, outside of
      which it reads nothing, unless that is None.
    - `recognises(path)`: whether a file is of this format, where another one has the same extension; None: by the extension.
    """

    suffixes: tuple[str, ...]
    description: str
    read_problem: "Callable[[Path], Problem] | None" = None
    write_problem: "Callable[[Path, Problem], None] | None" = None
    read_model: "Callable[..., Imported] | None" = None
    write_model: "Callable[[Path, Imported], tuple[str, ...]] | None" = None
    write_chain: "Callable[[Path, Problem, Policy], object] | None" = None
    read_policy: "Callable[[Path, Problem | None], Policy] | None" = None
    write_policy: "Callable[[Path, Problem, Policy], None] | None" = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: str | None = None
    recognises: Callable[[Path], bool] | None = None
    reads_beside: bool = False

    @property
    def abilities(self) -> tuple[str, ...]:
        """The names of the functions that it has."""
        return tuple(ability for ability in ABILITIES if getattr(self, ability) is not None)


def later(reference: str) -> Callable[..., Any]:
    """The function `"module:name"`, imported when it is first called, so that declaring a format costs nothing."""

    def call(*arguments: object, **named: object) -> object:
        from importlib.metadata import EntryPoint

        return EntryPoint("", reference, "").load()(*arguments, **named)

    return call


def _wrong(entry: object) -> str | None:
    """What keeps an entry of another package from being a format."""
    if not isinstance(entry, Format):
        return f"it is a {type(entry).__name__}, expected a veil.formats.registry.Format"
    if not entry.suffixes or not all(suffix.startswith(".") and suffix == suffix.lower() for suffix in entry.suffixes):
        return f"its suffixes are {entry.suffixes!r}, expected extensions in lower case, such as ('.dot',)"
    return None if entry.abilities else "it can neither read nor write anything"


FORMATS: Registry[Format] = Registry(
    "format",
    "veil.formats",
    {
        "scenario": "veil.formats.scenario:FORMAT",
        "pomdp": "veil.formats.pomdp:FORMAT",
        "arrays": "veil.formats.arrays:FORMAT",
        "drn": "veil.formats.drn:FORMAT",
        "prism": "veil.formats.prism:FORMAT",
        "map": "veil.formats.maps:FORMAT",
        "graph": "veil.formats.graphs:FORMAT",
        "safetensors": "veil.formats.policies:SAFETENSORS",
        "json": "veil.formats.policies:JSON",
        "csv": "veil.formats.policies:CSV",
        "player": "veil.formats.policies:PLAYER",
    },
    _wrong,
)


def formats_that(ability: str) -> dict[str, Format]:
    """The formats with an ability, by name; those of packages that cannot be loaded are left out."""
    return {name: found for name, found in _loaded()[0].items() if ability in found.abilities}


def suffixes(ability: str) -> tuple[str, ...]:
    """The extensions of all formats with an ability."""
    return tuple(dict.fromkeys(suffix for found in formats_that(ability).values() for suffix in found.suffixes))


def can(ability: str, path: str | Path) -> bool:
    """Whether a format with this ability has the extension of a path, and recognises the file if there is one."""
    return bool(_able(ability, path))


def _able(ability: str, path: str | Path) -> dict[str, Format]:
    """The formats with an ability that a file may have: by its extension, and of an existing file by its content."""
    place = Path(path)
    found = {name: one for name, one in formats_that(ability).items() if place.suffix.lower() in one.suffixes}
    asked = ability.startswith("read_") and place.is_file()
    return {n: one for n, one in found.items() if not (asked and one.recognises and not one.recognises(place))}


def find_format(ability: str, path: str | Path) -> Format:
    """The format for the extension of a path.

    **Raises:** `InputError` where there is none, naming the extensions that there are; `PluginError` where there are two.
    """
    check_extension(path, ability)
    suffix = Path(path).suffix.lower()
    found = _able(ability, path)
    if len(found) > 1:
        owners = " and ".join(map(repr, found))
        raise PluginError(f"the extension {suffix!r} belongs to the formats {owners}: uninstall one of their packages")
    return next(iter(found.values()))


def check_extension(path: str | Path, *abilities: str) -> None:
    """Raise `InputError` where no format with one of the abilities has the extension of a path."""
    if any(can(ability, path) for ability in abilities):
        return
    suffix = Path(path).suffix.lower()
    known = list(dict.fromkeys(suffix for ability in abilities for suffix in suffixes(ability)))
    aim = " or ".join(ABILITIES[ability] for ability in abilities)
    broken = "".join(f"; {error}" for error in _loaded()[1])
    found = f"unsupported extension {suffix!r}; known: {', '.join(known)} (to {aim}){broken}"
    raise InputError(str(path), [found])


def read_model(
    path: str | Path, options: Mapping[str, object] | None = None, *, folder: Path | None = None
) -> "Imported":
    """The model in a file, by the format of its extension.

    **Arguments:** `options`, by name; `folder`: where all files that this one names must lie; None: anywhere.

    **Raises:** `InputError` where no format has the extension, or the format does not have an option; and what the format's
    own reader raises.
    """
    found = find_format("read_model", path)
    assert found.read_model is not None
    unknown = [name for name in options or {} if name not in found.options]
    if unknown:
        known = ", ".join(found.options) or "none"
        raise InputError(str(path), [f"option {unknown[0]!r} is not one of this format ({found.description}): {known}"])
    beside = {"folder": folder} if found.reads_beside else {}
    return found.read_model(Path(path), **(options or {}), **beside)


def write_problem(path: str | Path, problem: "Problem") -> None:
    """Write a problem, by the format of the extension; raises `InputError` where no format that has it can."""
    write = find_format("write_problem", path).write_problem
    assert write is not None
    write(Path(path), problem)


def format_table() -> list[dict[str, str]]:
    """All formats, for people: name, extensions, description, abilities, options, and the extra that is needed."""
    return [
        {
            "name": name,
            "extensions": ", ".join(found.suffixes),
            "description": found.description,
            "abilities": ", ".join(ABILITIES[ability] for ability in found.abilities),
            "options": ", ".join(found.options),
            "extra": f"veil[{found.extra}]" if found.extra else "",
        }
        for name, found in _loaded()[0].items()
    ]


def _loaded() -> tuple[dict[str, Format], list[PluginError]]:
    """All formats, and the errors of packages whose formats cannot be loaded: those must not keep others from working."""
    found: dict[str, Format] = {}
    errors: list[PluginError] = []
    for name in FORMATS:
        try:
            found[name] = FORMATS.get(name)
        except PluginError as error:
            errors.append(error)
    return found, errors
