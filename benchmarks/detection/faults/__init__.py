"""Mutation operators by the part of a program that they change."""

from . import class_values as class_values
from . import closures as closures
from . import construction as construction
from . import cotangents as cotangents
from . import derivations as derivations
from . import effects as effects
from . import function_definitions as function_definitions
from . import function_results as function_results
from . import hitypes as hitypes
from . import jvp_functions as jvp_functions
from . import occasions as occasions
from . import outputs as outputs
from . import presence as presence
from . import set_late as set_late
from . import signatures as signatures
from . import tangents as tangents
