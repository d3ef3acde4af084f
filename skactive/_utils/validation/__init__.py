"""Rules that several rooms share, with their errors and warnings.

A message names the parameter in backticks, the rule, what was got and, where there is one, the remedy. A rule of one
room alone is in that room.
"""

from .arrays import *
from .estimators import *
from .rules import *
