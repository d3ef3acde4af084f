"""Work that travels to other processes: pickled once, and read there once, however many blocks it is done with."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from .._threads import Lock, one_thread
from ._mapping import Part, Work

_DEEPEST = 30


class Payload:
    """Work as bytes, which are read where it is done, for the first block that comes there."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._lock = Lock()
        self._work: Work | None = None

    @classmethod
    def of(cls, work: Work) -> Payload:
        """Pickle some work.

        Raises
        ------
        TypeError
            If something in it cannot be pickled. The message names it.
        """
        return cls(_pickled(work))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_work": None}

    def filed(self, file: str) -> Filed:
        """The same, written to a file."""
        with open(file, "wb") as pickled:
            pickled.write(self._pickled)
        return Filed(file)

    def of_block(self, block: Any, start: int) -> Part:
        with one_thread():
            return self._read().of_block(block, start)

    def of_rows(self, start: int, rows: Any) -> Part:
        with one_thread():
            return self._read().of_rows(start, rows)

    def _read(self) -> Work:
        import cloudpickle  # type: ignore[import-untyped]  # comes with dask

        with self._lock:
            if self._work is None:
                self._work = cloudpickle.loads(self._pickled)
        return self._work


class Filed:
    """A payload in a file, for processes that get all that a task needs anew with every task: these get its name."""

    def __init__(self, file: str) -> None:
        self._file = file

    def of_block(self, block: Any, start: int) -> Part:
        return _payload_in(self._file).of_block(block, start)


_READING = threading.Lock()


def _payload_in(file: str) -> Payload:
    with _READING:
        return _read_file(file)


@functools.lru_cache(maxsize=1)
def _read_file(file: str) -> Payload:
    with open(file, "rb") as pickled:
        return Payload(pickled.read())


def _pickled(work: Work) -> bytes:
    import cloudpickle

    try:
        pickled: bytes = cloudpickle.dumps(work)
    except Exception as error:
        raise TypeError(
            "`X_pool` lies with dask's workers, and what scores it there must be something that can be pickled. Got "
            f"{_culprit(work) or 'something that cannot'}: {error}. Leave it out; or score in this process, "
            'dask.config.set(scheduler="threads"); or score each block by itself with skactive.query.score_pool.'
        ) from error
    return pickled


def _culprit(whole: Any) -> str:
    """What cannot be pickled, at the bottom of an object that cannot."""
    seen, found = {id(whole)}, ""
    for _ in range(_DEEPEST):
        bad = next((part for part in _parts(whole) if id(part[1]) not in seen and not _can_travel(part[1])), None)
        if bad is None:
            return found
        name, part = bad
        seen.add(id(part))
        found = f"a {type(part).__name__}, {name} of a {type(whole).__name__}"
        whole = part
    return found


def _can_travel(part: Any) -> bool:
    import cloudpickle

    try:
        cloudpickle.dumps(part)
    except Exception:
        return False
    return True


def _parts(whole: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(whole, functools.partial):
        yield from (("an argument", part) for part in (whole.func, *whole.args, *whole.keywords.values()))
    elif inspect.ismethod(whole):
        yield "the object", whole.__self__
    elif inspect.isfunction(whole):
        captured = inspect.getclosurevars(whole)
        variables = {**captured.nonlocals, **captured.globals}
        yield from ((f"the variable `{name}`", part) for name, part in variables.items())
    elif isinstance(whole, Mapping):
        yield from ((f"the entry {name!r}", part) for name, part in whole.items())
    elif isinstance(whole, list | tuple | set):
        yield from (("an entry", part) for part in whole)
    else:
        yield from ((f"the attribute `{name}`", part) for name, part in getattr(whole, "__dict__", {}).items())
