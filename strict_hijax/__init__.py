"""Custom derivative rules in JAX that fail at import, and not in the first grad."""

from ._check import check as check
from ._checked_custom_jvp import checked_custom_jvp as checked_custom_jvp
from ._checked_custom_vjp import checked_custom_vjp as checked_custom_vjp
from ._errors import AdviceWarning as AdviceWarning
from ._errors import ArgumentError as ArgumentError
from ._errors import ClosedOverTracerError as ClosedOverTracerError
from ._errors import ConstructionError as ConstructionError
from ._errors import DefinitionError as DefinitionError
from ._errors import EffectError as EffectError
from ._errors import MissingRuleError as MissingRuleError
from ._errors import MultipleFaultsError as MultipleFaultsError
from ._errors import NoRulesError as NoRulesError
from ._errors import NotInitializedError as NotInitializedError
from ._errors import RuleIndexError as RuleIndexError
from ._errors import RuleTypeError as RuleTypeError
from ._errors import RuleValueError as RuleValueError
from ._errors import SignatureError as SignatureError
from ._errors import StrictHijaxError as StrictHijaxError
from ._errors import TangentStructureError as TangentStructureError
from ._errors import UntraceableRuleError as UntraceableRuleError
from ._errors import UsageError as UsageError
from ._errors import ignore as ignore
from ._primitive import StrictHiPrim as StrictHiPrim
from ._report import CheckReport as CheckReport
from ._report import RuleReport as RuleReport
from ._transforms import transforms as transforms
