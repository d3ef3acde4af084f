"""Displays, in scikit-learn's manner: attributes keep what is shown, and `plot` draws it.

A class method ``from_...`` computes what is shown and plots it. matplotlib is loaded by `plot`, and not before.

========================  ===================================================================
display                   question
========================  ===================================================================
LearningCurveDisplay      how good are models by the number of labels?
PairedDifferenceDisplay   is a query better than the reference, and how sure is that?
BatchDisplay              where in the pool is a batch?
========================  ===================================================================
"""

from ._displays import BatchDisplay, LearningCurveDisplay, PairedDifferenceDisplay

__all__ = ["BatchDisplay", "LearningCurveDisplay", "PairedDifferenceDisplay"]
