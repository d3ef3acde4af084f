"""Rows as points: squared distances between a few of many, and never between all.

A point is known by factors, short vectors whose outer product it is; the inner product of two points is the product of
those of their factors. So gradients of a last layer, ``(p - e) ⊗ h``, are points of n_classes * n_units coordinates
that nobody forms. A factor may be a row of leaves in place of a vector: the inner product of two rows is then the share
of the trees in which they fall into one leaf.

Factors are read from where they lie, a block or a few rows at a time: arrays, memory maps, tensors on any device,
sparse CSR and dask arrays. All arithmetic is in float64.
"""

from ._factors import Factor, Leaves, Residuals, Vectors
from ._points import Points, PointSet

__all__ = ["Factor", "Leaves", "PointSet", "Points", "Residuals", "Vectors"]
