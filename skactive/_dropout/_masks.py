"""Fixed dropout: one forward pass of a net in which everything random is answered by us.

A posterior draw of MC dropout (Gal and Ghahramani, 2016) is a *function*: one mask for the whole network, the same
for all rows. torch samples a mask a row instead, from the global generator. Here every random call of a forward pass
is answered with numbers of ours: `torch.nn` layers, plain ``F.dropout`` calls, the dropout inside of attention and
recurrent layers, and what a layer of the user's own asks of ``torch.rand`` or ``bernoulli_``, without touching the
module.

A call belongs to its position in the pass, so that a layer used twice gets two masks. What a call takes for one row
is its `Site`, known from a pass over a single row. In a pass over n rows the axis that is n times as long is that of
the rows, wherever it stands; where none is longer (dropout of weights, say), all rows share what one row would get. A
single row may come as it likes: whatever it asks for, it gets the same at every call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._checks import NetError
from ._noise import Noise
from ._random_calls import RandomCalls

_MADE: dict[Any, str] = {torch.rand: "uniform", torch.randn: "normal"}  # of a size that is given
_LIKE: dict[Any, str] = {torch.rand_like: "uniform", torch.randn_like: "normal"}
_FILLED: dict[Any, tuple[str, tuple[str, str]]] = {  # in place, with the names of what bounds or scales them
    Tensor.uniform_: ("uniform", ("from", "to")),
    nn.init.uniform_: ("uniform", ("a", "b")),
    Tensor.normal_: ("normal", ("mean", "std")),
    nn.init.normal_: ("normal", ("mean", "std")),
}
_TOSSED: set[Any] = {torch.bernoulli, Tensor.bernoulli}
_ANSWERED = _MADE.keys() | _LIKE.keys() | _FILLED.keys() | _TOSSED | {Tensor.bernoulli_}
_REFUSED: set[Any] = {
    *(torch.multinomial, torch.normal, torch.poisson, torch.randint, torch.randint_like, torch.randperm),
    *(F.gumbel_softmax, Tensor.multinomial, Tensor.random_, Tensor.exponential_),
    *(Tensor.cauchy_, Tensor.geometric_, Tensor.log_normal_, torch.native_dropout, nn.init.kaiming_uniform_),
}
_MAX_KEPT = 64 * 2**20  # booleans of masks that are kept for the next rows; further ones are made again

_NORMS: set[Any] = {F.batch_norm, F.instance_norm}  # which hand themselves over with all options by name

_NORMALISERS: dict[Any, str] = {
    **dict.fromkeys((F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax), "probabilities"),
    **dict.fromkeys((F.log_softmax, torch.log_softmax, Tensor.log_softmax), "log_probabilities"),
    torch.special.log_softmax: "log_probabilities",
    **dict.fromkeys((F.sigmoid, torch.sigmoid, Tensor.sigmoid, Tensor.sigmoid_, torch.sigmoid_), "sigmoids"),
    **dict.fromkeys((torch.special.expit, F.hardsigmoid), "sigmoids"),
}

ROW_BY_ROW = "`predict_batch_size`=1 draws row by row, which is always right"


@dataclass(frozen=True)
class Site:
    """What a random call takes for a single row."""

    law: str  # "dropout", "uniform", "normal" or "bernoulli"
    shape: tuple[int, ...]
    p: float = 0.0  # probability of being dropped
    is_alpha: bool = False

    @property
    def is_of_units(self) -> bool:
        """Whether units (on the axis behind the rows) are dropped as a whole, and to zero."""
        shape = self.shape
        is_flat = len(shape) > 1 and shape[0] == 1 and all(length == 1 for length in shape[2:])
        return self.law == "dropout" and not self.is_alpha and is_flat


class Sites:
    """The random calls of a net's forward pass, and the numbers that all draws see there."""

    def __init__(self, noise: Noise) -> None:
        self.noise = noise
        self.at: list[Site] = []
        self.rows_inside: dict[int, bool] = {}  # where parts of rows lie on the axis of the rows: is a row one piece?
        self.of_draw: dict[int, list[Site]] = {}  # for draws that make other calls than the first, by what they see
        self._kept: dict[tuple[int, int, torch.device, Site], Tensor] = {}
        self._n_kept = 0
        self._lock = threading.Lock()

    def of(self, draw: int | None) -> list[Site]:
        """The calls of a draw."""
        return self.at if draw is None else self.of_draw.get(draw, self.at)

    def kept(self, position: int, draw: int, device: torch.device, site: Site | None = None) -> Tensor:
        """What a draw keeps at a dropout call, in the shape of one row."""
        site = self.at[position] if site is None else site
        key = position, draw, device, site
        kept = self._kept.get(key)
        if kept is None:
            kept = self.noise.kept(position, draw, site.shape, site.p, device)
            with self._lock:
                if self._n_kept + kept.numel() <= _MAX_KEPT:
                    self._kept[key] = kept
                    self._n_kept += kept.numel()
        return kept


class Pass(RandomCalls):
    """One forward pass in which we say what is random.

    Parameters
    ----------
    sites : Sites
        Known ones are answered; with ``learns`` they are found.
    draw : int or None
        Whose numbers are given. None: dropout does nothing, and other random calls are refused.
    n_rows : int
        Rows that go through the net.
    heeds_training : bool
        Whether dropout that a call asks for with ``training=False`` is left out, as torch does.
    in_place : bool
        Whether dropout that is asked to change what it is given does so.
    """

    def __init__(
        self,
        sites: Sites,
        draw: int | None,
        n_rows: int,
        *,
        heeds_training: bool = True,
        in_place: bool = True,
        learns: bool = False,
    ) -> None:
        super().__init__()
        self.position = 0  # of the next call
        self.n_at_rate_zero = 0
        self.last_linear: Tensor | None = None  # what entered the linear layer that ran last
        self.last_normalised: tuple[str, Tensor] | None = None  # what the last softmax or sigmoid made
        self.on_raw_call: Callable[[], None] = lambda: None  # told of random calls that are no dropout
        self.watched: dict[int, Tensor] | None = None  # inputs of calls whose rows lie in parts
        self._sites, self._draw, self._n_rows = sites, draw, n_rows
        self._heeds_training, self._in_place, self._learns = heeds_training, in_place, learns

    def other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Answer what else is random, note what the net's answer is made of, and let the rest pass."""
        if func in _ANSWERED:
            return self._raw(func, args, kwargs)
        if func in _REFUSED:
            return self._refused(func, args, kwargs)
        if func in _NORMS:
            return _with_fixed_statistics(func, *args, **kwargs)
        if func is F.linear:
            self.last_linear = args[0] if args else kwargs["input"]
        if func is Tensor.view and not kwargs and len(args) > 1 and not isinstance(args[1], torch.dtype):
            return args[0].reshape(*args[1:])  # what was laid out in another order may be no view
        value = func(*args, **kwargs)
        if func in _NORMALISERS:
            self.last_normalised = _NORMALISERS[func], value
        return value

    # Dropout

    def rate(self, p: float, training: bool = True) -> float:
        """The rate at which this pass drops."""
        if p == 0:
            self.n_at_rate_zero += 1
        return 0.0 if self._draw is None or (self._heeds_training and not training) else p

    def changes(self, asked: bool) -> bool:
        return asked and self._in_place

    def kept(self, x: Tensor, shape: tuple[int, ...], p: float, is_alpha: bool) -> Tensor | None:
        position, site = self._next(Site("dropout", shape, float(p), is_alpha))
        if self._is_watched(site, shape):
            self.watched[position] = x.detach().clone()  # type: ignore[index]
            return None
        kept = self._spread(position, self._sites.kept(position, self._draw or 0, x.device, site), shape)
        # In the memory format of x, where a row of it will do: mixed ones are slow.
        return torch.empty_like(x[:1]).copy_(kept) if len(kept) == 1 else kept.to(x.dtype)

    def slopes(self, x: Tensor) -> Tensor:
        if self._draw is None:
            raise _random_module_error("rrelu")
        self.on_raw_call()
        return self._numbers("uniform", tuple(x.shape), x.device)

    def drop_steps(self, x: Tensor, p: float, n_rows: Tensor) -> Tensor:
        """Of packed sequences a row of any length gets as much of one mask as it is long."""
        position, site = self._next(Site("dropout", (len(n_rows), x.shape[-1]), float(p)), is_long=True)
        kept = self._sites.kept(position, self._draw or 0, x.device, site)
        return x * kept.repeat_interleave(n_rows.to(x.device), 0) / (1 - p) if p < 1 else torch.zeros_like(x)

    # Random numbers that a layer asks for itself

    def _raw(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        if self._draw is None:
            raise _random_module_error(func.__name__)
        self.on_raw_call()
        kwargs = {name: value for name, value in kwargs.items() if name not in ("generator", "out")}
        if func in _MADE:
            like = func(*args, **{**kwargs, "device": "meta"})
            device = torch.device(kwargs.get("device") or torch.get_default_device())
            return self._numbers(_MADE[func], tuple(like.shape), device).to(like.dtype)
        if func in _LIKE:
            like = torch.empty_like(*args, **kwargs)
            return self._numbers(_LIKE[func], tuple(like.shape), like.device).to(like.dtype)
        x, *rest = args if args else (kwargs["tensor"],)
        if func in _TOSSED:
            p = rest[0] if rest else kwargs.get("p")
            return self._tossed(x if p is None else torch.full_like(x, p)).to(x.dtype)
        if func is Tensor.bernoulli_:
            p = rest[0] if rest else kwargs.get("p", 0.5)
            return x.copy_(self._tossed(p if isinstance(p, Tensor) else torch.full(x.shape, p, device=x.device)))
        law, names = _FILLED[func]
        given = {**dict(zip(names, (0.0, 1.0), strict=True)), **dict(zip(names, rest, strict=False)), **kwargs}
        first, second = (given[name] for name in names)
        scale = second - first if law == "uniform" else second
        return x.copy_(self._numbers(law, tuple(x.shape), x.device) * scale + first)

    def _tossed(self, p: Tensor) -> Tensor:
        return self._numbers("bernoulli", tuple(p.shape), p.device) < p

    def _numbers(self, law: str, shape: tuple[int, ...], device: torch.device) -> Tensor:
        position, site = self._next(Site(law, shape))
        noise = self._sites.noise
        make = noise.normal if law == "normal" else noise.uniform
        numbers = make(position, self._draw or 0, site.shape, device)
        if self._is_watched(site, shape):
            return numbers.new_zeros(shape)
        return self._spread(position, numbers, shape).expand(shape).clone()

    def _refused(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs.get("generator") is not None:
            return func(*args, **kwargs)
        if self._draw is None:
            raise _random_module_error(func.__name__)
        raise NetError(
            f"`estimator` draws numbers by torch's {func.__name__} in training, which cannot be held fixed for a draw. "
            "Let it take them from torch.rand, torch.randn or bernoulli_, or give the class a method "
            "`sample_posterior(n_draws, rng)`."
        )

    # Places

    @property
    def made_all_calls(self) -> bool:
        """Whether the pass has asked for all that a pass over a single row asks for."""
        return self._n_rows == 1 or self.position == len(self._sites.of(self._draw))

    def _next(self, site: Site, *, is_long: bool = False) -> tuple[int, Site]:
        """The position of a call, and what it takes for one row.

        That it is the call which was there before is checked where its shape is compared, unless that may be any.
        """
        position, self.position = self.position, self.position + 1
        known = self._sites.of(self._draw)
        if self._learns:
            _check_vmap()
        if self._learns and position == len(known):
            known.append(site)
        if self._n_rows == 1:
            return position, site
        if position >= len(known) or (known[position].law, known[position].p) != (site.law, site.p):
            raise OtherCallsError(
                "`estimator` must ask for the same random numbers in every forward pass, and a pass over "
                f"{self._n_rows} rows asked for others than one over a single row. {ROW_BY_ROW}."
            )
        return position, site if is_long else known[position]

    def _is_watched(self, site: Site, shape: tuple[int, ...]) -> bool:
        return self.watched is not None and rows_in_parts(site.shape, shape, self._n_rows)

    def _spread(self, position: int, numbers: Tensor, shape: tuple[int, ...]) -> Tensor:
        """What one row gets, for all rows: as it is where it fits as it is, else repeated along the rows' axis."""
        axis = axis_of_rows(tuple(numbers.shape), shape, self._n_rows)
        if axis is None or numbers.shape[axis] == 1:
            return numbers
        if self._draw in self._sites.of_draw:
            raise folded_error()
        is_one_piece = self._sites.rows_inside.get(position)
        if is_one_piece is None:
            raise PartsError(f"It is not known how parts of rows lie at random call {position}.")
        n_rows = [-1] * (numbers.ndim + 1)
        n_rows[axis if is_one_piece else axis + 1] = self._n_rows
        return numbers.unsqueeze(axis if is_one_piece else axis + 1).expand(n_rows).flatten(axis, axis + 1)


def plain_pass(n_rows: int) -> Pass:
    """A pass in which dropout does nothing."""
    return Pass(_NO_SITES, None, n_rows)


_NO_SITES = Sites(Noise(1, np.random.default_rng(0)))  # of passes that ask for nothing; only read


class OtherCallsError(NetError):
    """A pass makes other random calls than are known."""


class PartsError(NetError):
    """It is not known yet how the parts of rows lie at a call."""


def axis_of_rows(one: tuple[int, ...], many: tuple[int, ...], n_rows: int) -> int | None:
    """The axis that is ``n_rows`` times as long for many rows as for one; None if the shapes are the same."""
    if one == many:
        return None
    axes = [axis for axis, lengths in enumerate(zip(one, many, strict=False)) if lengths[0] != lengths[1]]
    if len(one) != len(many) or len(axes) != 1 or many[axes[0]] != n_rows * one[axes[0]]:
        raise OtherCallsError(
            "`estimator` must hand rows of one shape to its dropout, so that a mask can be held fixed for all of them: "
            f"a single row came in the shape {one}, and {n_rows} rows in the shape {many}. Pad rows to one length. "
            f"{ROW_BY_ROW}."
        )
    return axes[0]


def rows_in_parts(one: tuple[int, ...], many: tuple[int, ...], n_rows: int) -> bool:
    axis = axis_of_rows(one, many, n_rows)
    return axis is not None and one[axis] > 1


def _with_fixed_statistics(
    func: Any, input: Tensor, running_mean: Any = None, running_var: Any = None, *args: Any, **options: Any
) -> Tensor:
    """Normalise by what was seen in training, whatever the mode: rows are to be answered one by one."""
    if running_mean is not None:
        options["training" if func is F.batch_norm else "use_input_stats"] = False
    elif func is F.batch_norm and input.numel() == input.shape[1]:
        raise NetError(
            "`estimator` must answer each row by itself, and its batch norm without running statistics has nothing to "
            "normalise a single row by. Train it with `track_running_stats=True`, or with layer or group norm."
        )
    return func(input, running_mean, running_var, *args, **options)


def _check_vmap() -> None:
    """Refuse random calls that torch.vmap makes for something else than rows, in a pass over a single row."""
    vmaps: Any = getattr(torch._C, "_functorch", None)  # torch does not say in public whether it maps
    if vmaps is None or not hasattr(vmaps, "CVmapInterpreterPtr"):
        return
    stack = vmaps.get_interpreter_stack() or []
    levels = [interpreter for interpreter in stack if interpreter.key() == vmaps.TransformType.Vmap]
    for level in map(vmaps.CVmapInterpreterPtr, levels):
        if level.batchSize() != 1 and level.randomness() != vmaps.RandomnessType.Same:
            raise NetError(
                "`estimator` must call torch.vmap over rows where something is random inside, and it does so over "
                f'{level.batchSize()} parts of a row or of the net. Let it set randomness="same", or loop over them.'
            )


def folded_error() -> NetError:
    return NetError(
        "`estimator` folds parts of a row (tokens, windows) into one axis with the rows before its dropout, and from "
        f"the rows given it cannot be told in which order. {ROW_BY_ROW}."
    )


def _random_module_error(function: str) -> NetError:
    return NetError(
        f"`estimator` calls torch's {function} in its forward pass outside of training: its answers change from call "
        "to call, so that a draw would be no function. Let it draw in training only (`if self.training:`), as "
        "torch.nn's dropout layers do."
    )
