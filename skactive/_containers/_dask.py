"""Arrays, DataFrames and Series of dask: each block is built once, where dask's scheduler sees fit.

Which scheduler that is says dask: its configuration, a client, or what the collection is made for. Threads build blocks
in this process, and they are worked on here. What workers of a client build, or other processes, is worked on there.
"""

from __future__ import annotations

import functools
import operator
import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from .._checks import failure_explained
from ._kinds import Indices, library_of, no_rows_error
from ._lazy import ReadInBlocks
from ._mapping import Edges, Part, Work
from ._payload import Filed, Payload
from ._registry import kind_of
from ._streams import NEAR, Source

_STEP = 1.0
"""Seconds between two looks at whether there is anybody who works."""


class Dask(ReadInBlocks):
    """Collections of dask; blocks of arrays are what they hold, numpy arrays mostly, those of frames are of pandas."""

    def holds(self, X: Any) -> bool:
        return library_of(X) in {"dask", "dask_expr"}

    def source(self, X: Any, name: str) -> Source:
        from dask.base import get_scheduler

        get = get_scheduler(collections=[X])
        client = getattr(get, "__self__", None)
        of_place = ClusterBlocks if hasattr(client, "scheduler_info") else DaskBlocks
        if hasattr(X, "divisions"):  # a DataFrame or a Series
            return of_place(X.partitions, [np.nan] * X.npartitions, f"{type(X).__name__} of dask", get)
        if not getattr(X, "shape", ()):
            raise no_rows_error(X, name)
        return of_place(X.blocks, X.chunks[0], "dask array", get)


class DaskBlocks(Source):
    """The blocks of a collection along its first axis.

    Parameters
    ----------
    blocks : indexable
        Collections of a block each.
    lengths : sequence of float
        NaN where a length is not known.
    name : str
    get : callable
        The scheduler.
    """

    def __init__(self, blocks: Any, lengths: Any, name: str, get: Callable[..., Any]) -> None:
        self._blocks = blocks
        self._lengths = [None if np.isnan(length) else int(length) for length in lengths]
        self.name = name
        self._get = get
        self._held: dict[int, Any] = {}  # the first blocks, which were built to look at them

    @property
    def reads_ahead(self) -> bool:  # type: ignore[override]
        return not self._is_by_processes

    @property
    def _is_by_processes(self) -> bool:
        from dask import multiprocessing

        return self._get is multiprocessing.get

    @functools.cached_property
    def _how(self) -> dict[str, Any]:
        """Keywords of ``compute``. Processes are started once a query, where dask would start them for every block."""
        import dask
        from dask import multiprocessing, system

        if not self._is_by_processes:
            return {"scheduler": self._get}
        pool = dask.config.get("pool", None)
        if pool is None:
            n_processes = dask.config.get("num_workers", None) or system.CPU_COUNT
            pool = ProcessPoolExecutor(n_processes, multiprocessing.get_context())
            weakref.finalize(self, pool.shutdown, wait=False)
        elif not hasattr(pool, "_max_workers"):
            pool = multiprocessing.MultiprocessingPoolExecutor(pool)
        return {"scheduler": self._get, "pool": pool, "chunksize": 1}

    def n_rows(self) -> int | None:
        return None if None in self._lengths else sum(length or 0 for length in self._lengths)

    def read(self, wanted: Indices | None) -> Iterator[tuple[Any, Any]]:
        start = n_read = 0
        for i, length in enumerate(self._lengths):
            if wanted is not None and length is not None and _n_inside(wanted, start, start + length) == 0:
                start += length
                continue
            block = self._held[i] if i in self._held else self._blocks[i].compute(**self._how)
            stop = start + kind_of(block).count_rows(block)
            self._hold(i, block, n_read)
            yield start, block
            n_read += _n_inside(wanted, start, stop)
            start = stop

    def _hold(self, i: int, block: Any, n_read: int) -> None:
        """Keep the blocks of the first two rows: a pass that was begun with them may be gone on with elsewhere."""
        if n_read >= 2:
            self._held.clear()
        elif self._is_by_processes:
            self._held[i] = block

    def mapper(self, multiple: int) -> Callable[[Work], Iterator[Part]] | None:
        if not self._is_by_processes or self.n_rows() is None:
            return None
        return self._mapped_by_processes

    def _mapped_by_processes(self, work: Work) -> Iterator[Part]:
        import dask

        edges, places = Edges(work.multiple), [*self._places(work.rows)]
        n = 2 * self._how["pool"]._max_workers
        with _filed(work) as filed:
            for some in (places[at : at + n] for at in range(0, len(places), n)):
                parts = {i: work.of_block(self._held.pop(i), start) for i, start in some if i in self._held}
                tasks = {
                    i: dask.delayed(_of_block, pure=False)(filed, self._blocks[i], start)
                    for i, start in some
                    if i not in parts
                }
                with failure_explained("Working on `X_pool` in dask's processes"):
                    done = dask.compute(*tasks.values(), **self._how)
                parts |= dict(zip(tasks, done, strict=True))
                for i, _ in some:
                    yield parts[i]
                    yield from (work.of_rows(*rows) for rows in edges.add(parts[i].edges))
            yield from (work.of_rows(*rows) for rows in edges.rest())

    def _places(self, wanted: Indices | None) -> Iterator[tuple[int, int]]:
        """Blocks with wanted rows, and where each begins; all blocks, and no more, if lengths are not known."""
        start, is_known = 0, self.n_rows() is not None
        for i, length in enumerate(self._lengths):
            stop = start + (length or 0)
            if wanted is None or not is_known or _n_inside(wanted, start, stop):
                yield i, start
            start = stop


class ClusterBlocks(DaskBlocks):
    """The same with the workers of a client: of their rows only those come here that are asked for."""

    reads_ahead = False  # the next block is being built by a worker

    @property
    def _client(self) -> Any:
        return self._get.__self__  # type: ignore[attr-defined]

    def read(self, wanted: Indices | None) -> Iterator[tuple[Any, Any]]:
        stop, n_read, coming = 0, 0, None
        places = [*self._places(wanted)]
        for (i, start), (following, _) in pairwise([*places, (len(self._lengths), 0)]):
            block, coming = coming or self._built(i), None
            start = stop if self.n_rows() is None else start
            stop = start + (self._lengths[i] or self._result(self._client.submit(_count, block)))
            inside = np.arange(start, stop) if wanted is None else wanted[_between(wanted, start, stop)]
            is_head = n_read < 2
            self._held = {**self._held, i: block} if is_head else {}
            n_head = min(NEAR, len(inside)) if is_head else 0
            if n_head:
                yield inside[:n_head], self._result(self._client.submit(_taken, block, inside[:n_head] - start))
            coming = self._built(following)  # while a worker builds this, the rows here are worked on
            if n_head < len(inside):
                yield inside[n_head:], self._result(self._client.submit(_taken, block, inside[n_head:] - start))
            n_read += len(inside)

    def _built(self, i: int) -> Any:
        """A block with a worker, built or being built; None behind the last."""
        if i in self._held or i >= len(self._lengths):
            return self._held.get(i)
        return self._client.compute(self._blocks[i])

    def mapper(self, multiple: int) -> Callable[[Work], Iterator[Part]] | None:
        return self._mapped_by_workers

    def _mapped_by_workers(self, work: Work) -> Iterator[Part]:
        edges, client, waiting = Edges(work.multiple), self._client, deque[Any]()
        payload = self._sent(Payload.of(work))
        in_flight = 2 * max(2, sum(client.nthreads().values()))

        def done(most: int) -> Iterator[Part]:
            while len(waiting) > most:
                part = self._result(waiting.popleft())
                yield part
                waiting.extend(client.submit(_of_rows, payload, *rows, pure=False) for rows in edges.add(part.edges))

        for block, start in self._with_starts(work.rows):
            waiting.append(client.submit(_of_block, payload, block, start, pure=False))
            del block
            yield from done(most=in_flight)
        yield from done(most=0)
        for rows in edges.rest():
            yield self._result(client.submit(_of_rows, payload, *rows, pure=False))

    def _with_starts(self, wanted: Indices | None) -> Iterator[tuple[Any, Any]]:
        """Blocks with the workers, and where each begins: a number, or what will be one when the blocks before are."""
        if self.n_rows() is not None:
            yield from ((self._held.pop(i, None) or self._built(i), start) for i, start in self._places(wanted))
            return
        start: Any = 0
        for i in range(len(self._lengths)):
            block = self._held.pop(i, None) or self._built(i)
            yield block, start
            start = self._client.submit(operator.add, start, self._client.submit(_count, block))
            del block

    def _sent(self, payload: Payload) -> Any:
        """The payload with a worker, from which others take it. A task: if the worker is lost, it is sent again."""
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self._client.submit(_as_it_is, payload, pure=False)

    def _result(self, future: Any) -> Any:
        """What a worker has found, as long as there are any: it may be lost with its worker until it is here."""
        import dask

        patience = dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect", "30s"))
        waited, coming = 0.0, _in_background(future.result)
        with failure_explained("Working on `X_pool` with dask's workers"):
            while not wait([coming], _STEP).done:
                waited = 0.0 if self._client.nthreads() else waited + _STEP
                if waited >= patience:
                    raise ConnectionError(
                        f"the scheduler {self._client.scheduler.addr} has had no worker for {patience:g} s. Start "
                        "some, and wait for them with client.wait_for_workers(1)"
                    )
            return coming.result()


def _in_background(function: Callable[[], Any]) -> Future[Any]:
    """A function that another thread calls, which nobody waits for at the end of the process."""
    answer: Future[Any] = Future()

    def call() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:  # whatever it is, it is raised where it is asked for
            answer.set_exception(error)

    threading.Thread(target=call, name="skactive-waiting", daemon=True).start()
    return answer


def _n_inside(wanted: Indices | None, start: int, stop: int) -> int:
    """How many rows of a block are wanted."""
    if wanted is None:
        return stop - start
    between = _between(wanted, start, stop)
    return int(between.stop - between.start)


def _between(wanted: Indices, start: int, stop: int) -> slice:
    return slice(*np.searchsorted(wanted, [start, stop]).tolist())


# --- what other processes do: functions of a module, which travel by name ---------------------------


def _as_it_is(payload: Payload) -> Payload:
    return payload


def _of_block(payload: Payload | Filed, block: Any, start: int) -> Part:
    return payload.of_block(block, start)


def _of_rows(payload: Payload, start: int, rows: Any) -> Part:
    return payload.of_rows(start, rows)


def _count(block: Any) -> int:
    return int(kind_of(block).count_rows(block))


def _taken(block: Any, rows: Indices) -> Any:
    return kind_of(block).take(block, rows)


@contextmanager
def _filed(work: Work) -> Iterator[Filed]:
    payload = Payload.of(work)
    with tempfile.TemporaryDirectory(prefix="skactive-") as folder:
        yield payload.filed(os.path.join(folder, "work"))
