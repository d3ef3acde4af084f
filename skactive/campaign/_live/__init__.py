"""Labelling in browsers while the model learns."""

from ._server import Served

__all__ = ["Served"]
