"""Whether more labels are worth their price, from what the last ones changed.

The accuracy that labels not yet bought would bring is unknown. What can be known without a test set: how many
predictions the last labels changed, which bounds their effect on the accuracy; what those changes are worth by the
model's own probabilities; and, if test labels were bought (`skactive.risk`), how good the model is. A `StoppingReport`
puts these side by side, with a verdict and a sentence.
"""

from ._report import StoppingReport

__all__ = ["StoppingReport"]
