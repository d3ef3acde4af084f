"""Functions drawn from torch modules with dropout, exactly as they are."""

from ._draws import FixedDraws
from ._dropout_calls import Pass, plain_pass
from ._eval_copy import FrozenNet, is_close, row_by_row
from ._random_calls import TrainingRandom
from ._rows import BLOCK, BlockSize, InBlocks, Rows, TensorRows, differ, forward_rows, spread

__all__ = [
    "BLOCK",
    "BlockSize",
    "FixedDraws",
    "FrozenNet",
    "InBlocks",
    "Pass",
    "Rows",
    "TensorRows",
    "TrainingRandom",
    "differ",
    "forward_rows",
    "is_close",
    "plain_pass",
    "row_by_row",
    "spread",
]
