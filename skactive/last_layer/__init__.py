"""A Bayesian last layer on the embedding of any model."""

from ._classifier import LastLayerClassifier

__all__ = ["LastLayerClassifier"]
