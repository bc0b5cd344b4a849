"""Secrets, one module a kind; what a package that adds a kind needs is imported from here."""

from ..keys import SECRET_CELLS as SECRET_CELLS
from ..keys import Key as Key
from ..keys import States as States
from .secret import Secret as Secret
from .secret import SecretTable as SecretTable
from .secret import State as State
from .secret import membership as membership
