"""Queries as an experiment holds them: copies of their own, and what they remember between rounds.

A query may keep what it likes: a random generator, a history of scores. If its state is plain data, which those of this
package and any query with ``get_state`` and ``set_state`` can offer, it is written down (`_plain`) and read back. No
other object is made from a file, as that would run code that stands there. Of such a query only a checksum is
written, which tells whether it changed: if it did, the run asks it for its finished rounds again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _fingerprint as fingerprint
from .._plain import NoPlainFormError, dumps, loads
from .._random import seeded_clone

try:
    import cloudpickle  # type: ignore[import-untyped]
except ImportError:  # joblib before 1.6 brings its own
    from joblib.externals import cloudpickle

_PLAIN, _CHECKSUM = b"state ", b"checksum "


def copied(name: str, query: Any) -> Any:
    """A copy that shares nothing with the original."""
    try:
        return cloudpickle.loads(cloudpickle.dumps(query))
    except Exception as error:
        raise TypeError(
            f"`queries`[{name!r}] must be picklable, because each run uses a copy of it. "
            f"{type(error).__name__}: {error}"
        ) from error


def fresh_copy(name: str, query: Any, seed: int) -> Any:
    """A copy without a history. Its ``random_state`` is the seed, and those of its parts follow from the seed."""
    if not hasattr(query, "get_params"):
        return copied(name, query)
    twin = seeded_clone(query, np.random.default_rng(seed))
    return twin.set_params(random_state=seed) if "random_state" in twin.get_params(deep=False) else twin


def memory_of(query: Any) -> bytes:
    """What the query remembers, or a checksum of it: different whenever it remembers something else."""
    if not (hasattr(query, "get_state") and hasattr(query, "set_state")):
        return _checksum(vars(query) if hasattr(query, "get_params") else query)
    state, parameters = query.get_state(), _parameters(query)
    try:
        return _PLAIN + parameters + dumps(state)
    except NoPlainFormError:
        return _checksum([state, parameters])


def remembers(query: Any, memory: bytes) -> bool:
    """Give a new query the state that `memory_of` wrote down, or say that this is not all it remembered."""
    known = _PLAIN + _parameters(query)
    if not memory.startswith(known):
        return False
    query.set_state(loads(memory.removeprefix(known)))
    return True


def _parameters(query: Any) -> bytes:
    """A checksum of the parameters, as a score of the user's own may remember something, too."""
    return _checksum(query.get_params(deep=False) if hasattr(query, "get_params") else None) + b" "


def _checksum(state: Any) -> bytes:
    return _CHECKSUM + fingerprint.digest(fingerprint.describe(state)).encode()
