"""All cases by name; importing the modules below registers theirs."""

from . import evaluated, kept, measured, proven, searched
from .registry import CASES as CASES

MODULES = (evaluated, measured, searched, proven, kept)
