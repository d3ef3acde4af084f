"""What a net with dropout refuses or warns of, and in which words."""

from __future__ import annotations

from .._checks import NetError


def inner_dropout_error(layers: str) -> NetError:
    return NetError(
        f"`estimator` has dropout inside of {layers}, where no mask can be held fixed for all rows. Set the layer's "
        "`dropout` to 0 to draw from the net's other dropout layers alone."
    )
