"""Functions drawn from torch modules with dropout, exactly as they are."""

from ._draws import FixedDraws
from ._dropout_calls import Pass, plain_pass
from ._frozen_net import FrozenNet, copy_of, is_close
from ._random_calls import TrainingRandom
from ._rows import BLOCK, InBlocks, Rows, TensorRows, rows_of_outputs, spread

__all__ = [
    "BLOCK",
    "FixedDraws",
    "FrozenNet",
    "InBlocks",
    "Pass",
    "Rows",
    "TensorRows",
    "TrainingRandom",
    "copy_of",
    "is_close",
    "plain_pass",
    "rows_of_outputs",
    "spread",
]
