"""What a query remembers from call to call, in one object."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ._ageing import Ageing
from ._draws import Refits
from ._reference import Reference

_HISTORIES = ("batch_sizes", "betas")


@dataclass(frozen=True)
class Memory:
    """The memory of a query. It is replaced, never changed; only the random stream moves on in place.

    Attributes
    ----------
    rng : numpy.random.Generator
        The stream that each call takes its part from. Kept and advanced: to seed it again at every call would put the
        same noise on the pool again.
    refits : Refits
        Members of a bootstrap, until the training data change.
    reference : Reference or None
        Rows of the last pool with the scores that they had, for ``beta="auto"``.
    ageing : dict of int to Ageing
        By the number of labels: what these labels changed in the ranking of the pool.
    batch_sizes, betas : tuple
        Of all batches so far.
    """

    rng: np.random.Generator
    refits: Refits = field(default_factory=Refits)
    reference: Reference | None = None
    ageing: Mapping[int, Ageing] = field(default_factory=dict)
    batch_sizes: tuple[int, ...] = ()
    betas: tuple[float, ...] = ()

    def restarted(self, rng: np.random.Generator) -> Memory:
        """The same memory with another stream, and without what the old stream brought forth."""
        return replace(self, rng=rng, refits=self.refits.forgotten())

    def with_batch(self, k: int) -> Memory:
        return replace(self, batch_sizes=(*self.batch_sizes, k))

    def to_plain(self) -> dict[str, Any]:
        """Numbers, arrays, rows of a pool and a generator; without members of a bootstrap, which can be made again."""
        return {
            "rng": copy.deepcopy(self.rng),
            "is_known": self.refits.is_known,
            "reference": None if self.reference is None else dict(vars(self.reference)),
            "ageing": {n_labelled: dict(vars(seen)) for n_labelled, seen in self.ageing.items()},
            "batch_sizes": self.batch_sizes,
            "betas": self.betas,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Memory:
        """The memory that `to_plain` wrote."""
        return cls(
            rng=copy.deepcopy(plain["rng"]),
            refits=Refits(is_known=plain["is_known"]),
            reference=None if plain["reference"] is None else Reference(**plain["reference"]),
            ageing={n_labelled: Ageing(**seen) for n_labelled, seen in plain["ageing"].items()},
            batch_sizes=plain["batch_sizes"],
            betas=plain["betas"],
        )

    def learned(self, before: Memory, after: Memory, own: frozenset[str]) -> Memory:
        """Add what a call changed, which found ``before`` and left ``after``, but for the fields ``own``.

        Other calls may have ended since it began: to histories it adds what it added.
        """
        names = [f.name for f in fields(self) if f.name not in own]
        changed: dict[str, Any] = {
            name: getattr(after, name) for name in names if getattr(after, name) is not getattr(before, name)
        }
        for name in _HISTORIES:
            if name in changed:
                changed[name] = (*getattr(self, name), *changed[name][len(getattr(before, name)) :])
        return replace(self, **changed)
