"""A pytest plugin: the module VEIL_CHANGED_MODULE is imported from the text in VEIL_CHANGED_TEXT, for `tests.mutants`."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

_MODULE, _TEXT = (os.environ[f"VEIL_CHANGED_{name}"] for name in ("MODULE", "TEXT"))


class _Changed(SourceFileLoader):
    """Compiles the changed text in the place of the file's."""

    def get_code(self, fullname: str) -> CodeType:
        return compile(Path(_TEXT).read_text("utf-8"), self.path, "exec")


class _Finder:
    """Finds the changed module where the unchanged one is."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == _MODULE else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Changed(name, spec.origin)
        return spec


sys.meta_path.insert(0, _Finder)
