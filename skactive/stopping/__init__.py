"""Whether more labels are worth their cost, from what the last ones changed.

What is known without a test set: how many predictions the last labels changed, and what those changes are worth by the
model's own probabilities. A `StoppingReport` says so, with a verdict.
"""

from ._report import StoppingReport

__all__ = ["StoppingReport"]
