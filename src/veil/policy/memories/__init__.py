"""Memories, one module a kind; what a package that adds a kind needs is imported from here."""

from ...problem.keys import Key as Key
from ...problem.keys import States as States
from ...problem.registers import Numbers as Numbers
from ...problem.registers import Register as Register
from .controller import Controller as Controller
from .memory import Memory as Memory
from .memory import PolicyMemory as PolicyMemory
from .memory import choices as choices
from .memory import clock_key as clock_key
from .mixture import Mixture as Mixture
from .observations import ObservationMemory as ObservationMemory
from .states import StateMemory as StateMemory
from .window import Window as Window
from .zones import ZoneMemory as ZoneMemory
