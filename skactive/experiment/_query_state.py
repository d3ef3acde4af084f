"""Queries as an experiment holds them: copies of their own, whose state can be written down between rounds.

A query may keep what it likes: a random generator, a history of scores. `memory_of` is that state as bytes. For a query
with parameters it is the attributes beside them; for any other callable it is the whole object, and for a function its
closure and globals too, which is how cloudpickle sends functions to other processes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._random import seeded_clone

try:
    import cloudpickle  # type: ignore[import-untyped]
except ImportError:  # joblib before 1.6 brings its own
    from joblib.externals import cloudpickle


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
    """What the query remembers."""
    if hasattr(query, "get_state"):
        return cloudpickle.dumps(query.get_state())
    if not hasattr(query, "get_params"):
        return cloudpickle.dumps(query)
    params = query.get_params(deep=False)
    return cloudpickle.dumps({name: value for name, value in vars(query).items() if name not in params})


def remembering(query: Any, memory: bytes) -> Any:
    """The query in the state that `memory_of` wrote down."""
    state = cloudpickle.loads(memory)
    if hasattr(query, "set_state"):
        query.set_state(state)
    elif hasattr(query, "get_params"):
        vars(query).update(state)
    else:
        return state
    return query
