"""Registries: named entries of one kind, veil's own and those that installed packages add through entry points."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from .errors import InputError, PluginError
from .suggest import suggestion

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Registry(Generic[T]):
    """The entries of one kind by name; each is imported when it is first asked for, so naming them costs nothing.

    **Arguments:**

    - `kind`: what an entry is, in one or two words, for messages: `"method"`.
    - `group`: the entry point group through which another package adds its own, as `"veil.methods"`:
      `[project.entry-points."veil.methods"]` and `name = "package.module:Class"` in its `pyproject.toml`.
    - `builtin`: veil's own, name to `"veil.module:attribute"`.
    - `check`: says what is wrong with an entry that was loaded, in a few words, or None; an entry of another package that
      does not meet the contract is refused with these words.

    A package that cannot be loaded, or that adds a name which is taken, fails when that name is used, with a `PluginError`
    that names the package; `import veil` and all other entries are not affected.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        builtin: Mapping[str, str],
        check: Callable[[object], str | None] = lambda entry: None,
    ):
        self.kind, self.group = kind, group
        self.builtin = tuple(builtin)
        self._builtin, self.check = dict(builtin), check
        self._loaded: dict[str, T] = {}

    def names(self) -> tuple[str, ...]:
        """Every name: veil's own in their order, then those of other packages, sorted."""
        return (*self.builtin, *sorted(set(self._points) - set(self.builtin)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._points

    def get(self, name: str) -> T:
        """The entry of a name.

        **Raises:** `InputError` where there is none, with the names that there are; `PluginError` where the package that
        adds it cannot be loaded, or where two packages add the same name.
        """
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def expected(self, name: object) -> str:
        """What was expected in place of a name that is not there, for a message: the names, and which may have been meant."""
        hint = suggestion(name, self.names())
        return f"one of {', '.join(map(repr, self.names()))}" + (f": {hint}" if hint.startswith("did") else "")

    def _load(self, name: str) -> T:
        if name not in self._points:
            raise InputError(self.kind, [f"it is {name!r}, expected {self.expected(name)}"])
        points = self._points[name]
        if len(points) > 1:
            owners = " and ".join(_owner(point) for point in points)
            raise PluginError(f"the {self.kind} {name!r} is defined by {owners}: uninstall one of them")
        point = points[0]
        try:
            entry: object = point.load()
        except (Exception, SystemExit) as error:
            if point.dist is None:  # ours: a defect of veil
                raise
            raise PluginError(f"{self._of(point)} cannot be loaded: {type(error).__name__}: {error}") from error
        wrong = self.check(entry)
        if wrong:
            raise PluginError(f"{self._of(point)} cannot be used: {wrong}")
        return cast(T, entry)

    def _of(self, point: "EntryPoint") -> str:
        return f"the {self.kind} {point.name!r} of {_owner(point)} ({point.value})"

    @cached_property
    def _points(self) -> "dict[str, list[EntryPoint]]":
        """Where each name comes from; a name with several origins is a clash."""
        from importlib.metadata import EntryPoint, entry_points

        points = {name: [EntryPoint(name, value, self.group)] for name, value in self._builtin.items()}
        for point in entry_points(group=self.group):
            points.setdefault(point.name, []).append(point)
        return points


def _owner(point: "EntryPoint") -> str:
    return "veil" if point.dist is None else f"package {point.dist.name!r} {point.dist.version}"
