"""Features of observers, one module a kind; what a package that adds a kind needs is imported from here."""

from ..keys import Key as Key
from ..keys import States as States
from .feature import ObserverFeature as ObserverFeature
from .feature import blind as blind
