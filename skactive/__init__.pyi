"""What editors and type checkers see: all public names, which `__init__.py` imports when one is first used."""

from . import acsfw as acsfw
from . import badge as badge
from . import batchbald as batchbald
from . import campaign as campaign
from . import causal as causal
from . import cli as cli
from . import datasets as datasets
from . import experiment as experiment
from . import kcenter as kcenter
from . import last_layer as last_layer
from . import mc_dropout as mc_dropout
from . import plotting as plotting
from . import posterior as posterior
from . import query as query
from . import risk as risk
from . import samplers as samplers
from . import scores as scores
from . import stopping as stopping
from ._containers import blocks as blocks
from ._modal import repair_modal as repair_modal
from .acsfw import ACSFWQuery as ACSFWQuery
from .badge import BADGEQuery as BADGEQuery
from .batchbald import BatchBALDQuery as BatchBALDQuery
from .campaign import Campaign as Campaign
from .causal import CausalBALDQuery as CausalBALDQuery
from .experiment import ExperimentResult as ExperimentResult
from .experiment import run_experiment as run_experiment
from .kcenter import KCenterQuery as KCenterQuery
from .last_layer import LastLayerClassifier as LastLayerClassifier
from .mc_dropout import MCDropoutClassifier as MCDropoutClassifier
from .mc_dropout import MCDropoutRegressor as MCDropoutRegressor
from .plotting import LearningCurveDisplay as LearningCurveDisplay
from .posterior import sample_posterior as sample_posterior
from .query import Limits as Limits
from .query import StochasticBatchQuery as StochasticBatchQuery
from .stopping import StoppingReport as StoppingReport

__version__: str
__all__: list[str]

def __dir__() -> list[str]: ...
