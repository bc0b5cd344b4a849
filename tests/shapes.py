"""A type checker of arrays: the shapes and dtypes that jaxtyping annotations state, checked while tests run.

`VEIL_CHECK_SHAPES=1 pytest …` installs it for the whole package: see `conftest.py`. Every argument
and result annotated with `Float[np.ndarray, "T C A"]` and the like is compared with the annotation, and a dimension
letter has one size throughout a call; in a list each array has sizes of its own. Other annotations are for pyright.
"""

import inspect
import types
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Union, get_args, get_origin

import numpy as np
from jaxtyping import AbstractArray, AnnotationError, jaxtyped


class ShapeError(TypeError):
    """An array is not what its annotation says."""


def check_arrays(function: Callable) -> Callable:
    """The function with its arrays compared with their annotations, for `jaxtyping.install_import_hook`."""
    signature = inspect.signature(function)
    hints = {name: one.annotation for name, one in signature.parameters.items() if _has_arrays(one.annotation)}
    result = signature.return_annotation if _has_arrays(signature.return_annotation) else None
    if not hints and result is None:
        return function

    @wraps(function)
    def checked(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        for name, hint in hints.items():
            if name in given and not _fits(given[name], hint):
                raise ShapeError(f"{function.__qualname__}: {name} is {_shown(given[name])}, and {hint} is stated")
        found = function(*args, **kwargs)
        if result is not None and not _fits(found, result):
            raise ShapeError(f"{function.__qualname__}: the result is {_shown(found)}, and {result} is stated")
        return found

    return checked


def _is_array(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray)


def _has_arrays(hint: object) -> bool:
    return _is_array(hint) or any(_has_arrays(part) for part in get_args(hint))


def _fits(value: object, hint: object) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if _is_array(hint):
        return _is_such_array(np.asarray(value) if isinstance(value, np.generic) else value, hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) if _has_arrays(part) else _may_be(value, part) for part in parts)
    if origin is tuple and isinstance(value, tuple) and parts[-1] is not ...:
        return len(parts) == len(value) and all(map(_fits, value, parts))
    if origin in (tuple, list, Sequence) and isinstance(value, list | tuple):
        return all(_fits_alone(one, parts[0]) for one in value)
    return True


def _fits_alone(value: object, hint: object) -> bool:
    """As `_fits`, for one of a list: each has sizes of its own."""
    with jaxtyped("context"):
        return _fits(value, hint)


def _may_be(value: object, hint: object) -> bool:
    if hint is type(None):
        return value is None
    return isinstance(value, hint) if isinstance(hint, type) and not get_args(hint) else True


def _is_such_array(value: object, hint: Any) -> bool:
    try:
        return isinstance(value, hint)
    except AnnotationError:  # a size such as `T+1` where no argument says what T is: the number of axes is left
        return isinstance(value, hint.array_type) and getattr(value, "ndim", 0) == len(hint.dim_str.split())


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_shown, value))})"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", "")
    return type(value).__name__ if shape is None else f"{dtype}{tuple(shape)}"
