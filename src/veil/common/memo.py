"""Results that are kept on the immutable object they belong to, and freed with it."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Made = TypeVar("Made")

_NAME = "_kept"


class _Kept(dict[Hashable, Any]):
    """Results by their keys. A copy or a pickle of the owner begins without them."""

    def __reduce__(self) -> tuple[type["_Kept"], tuple[()]]:
        return _Kept, ()

    def __copy__(self) -> "_Kept":
        return _Kept()

    def __deepcopy__(self, memo: dict[int, object]) -> "_Kept":
        return _Kept()


def memo(owner: object, key: Hashable, make: Callable[[], Made], keep: Callable[[Made], bool] | None = None) -> Made:
    """What `make` returns, made once for each owner and key.

    An object made by `replace`, equal or not, is another owner. Two threads that ask at the same time may both compute;
    both receive the result that was stored first.

    **Arguments:** `owner`: an immutable object with a `__dict__`; `key`: the function that asks, with all arguments that the
    result depends on beside the owner; `keep`: whether a result is kept, such as one that no clock has cut short.
    """
    found = owner.__dict__.get(_NAME)
    if found is None:
        found = owner.__dict__.setdefault(_NAME, _Kept())
    if key in found:
        return found[key]
    made = make()
    return found.setdefault(key, made) if keep is None or keep(made) else made


def kept(owner: object, key: Hashable) -> Any:
    """What `memo` keeps for an owner and a key; None if nothing is kept."""
    return owner.__dict__.get(_NAME, {}).get(key)
