"""Fixed dropout: one forward pass of a net in which all random numbers are those of a draw.

A posterior draw of MC dropout (Gal and Ghahramani, 2016) is a *function*: one mask for the whole network, the same
for all rows. torch samples a mask for each row instead, from the global generator. `Pass` answers every random call of
a forward pass without touching the module: `torch.nn` layers, plain ``F.dropout`` calls, the dropout inside of
attention and recurrent layers, and calls of ``torch.rand`` or ``bernoulli_`` in the user's layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._checks import NetError
from ._noise import Noise
from ._random_calls import RandomCalls
from ._sites import ROW_BY_ROW, OtherCallsError, PartsError, Site, Sites, axis_of_rows, folded_error, rows_in_parts

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
_NORMS: set[Any] = {F.batch_norm, F.instance_norm}  # they pass all options by name

_NORMALISERS: dict[Any, str] = {
    **dict.fromkeys((F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax), "probabilities"),
    **dict.fromkeys((F.log_softmax, torch.log_softmax, Tensor.log_softmax), "log_probabilities"),
    torch.special.log_softmax: "log_probabilities",
    **dict.fromkeys((F.sigmoid, torch.sigmoid, Tensor.sigmoid, Tensor.sigmoid_, torch.sigmoid_), "sigmoids"),
    **dict.fromkeys((torch.special.expit, F.hardsigmoid), "sigmoids"),
}


class Pass(RandomCalls):
    """One forward pass with given random numbers.

    Parameters
    ----------
    sites : Sites
        The random calls of the net; with ``learns`` this pass finds them.
    draw : int or None
        The draw whose numbers are given. None: dropout does nothing, and other random calls are refused.
    n_rows : int
        Rows that go through the net.
    heeds_training : bool
        Whether dropout called with ``training=False`` does nothing, as in torch.
    in_place : bool
        Whether dropout called with ``inplace=True`` changes its input.
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
        self.last_linear: Tensor | None = None  # input of the linear layer that ran last
        self.last_normalised: tuple[str, Tensor] | None = None  # output of the last softmax or sigmoid
        self.on_raw_call: Callable[[], None] = lambda: None  # called at random calls other than dropout
        self.watched: dict[int, Tensor] | None = None  # inputs of calls whose rows lie in parts
        self._sites, self._draw, self._n_rows = sites, draw, n_rows
        self._heeds_training, self._in_place, self._learns = heeds_training, in_place, learns

    def other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Answer the other random functions, note the last linear layer and softmax, and run the rest."""
        if func in _ANSWERED:
            return self._raw(func, args, kwargs)
        if func in _REFUSED:
            return self._refused(func, args, kwargs)
        if func in _NORMS:
            return _with_fixed_statistics(func, *args, **kwargs)
        if func is F.linear:
            self.last_linear = args[0] if args else kwargs["input"]
        if func is Tensor.view and not kwargs and len(args) > 1 and not isinstance(args[1], torch.dtype):
            return args[0].reshape(*args[1:])  # the input may have another memory layout than in training
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
        # In the memory format of x, if the mask is one for all rows: products of mixed formats are slow.
        return torch.empty_like(x[:1]).copy_(kept) if len(kept) == 1 else kept.to(x.dtype)

    def slopes(self, x: Tensor) -> Tensor:
        if self._draw is None:
            raise _random_in_evaluation_error("rrelu")
        self.on_raw_call()
        return self._numbers("uniform", tuple(x.shape), x.device)

    def drop_steps(self, x: Tensor, p: float, n_rows: Tensor) -> Tensor:
        """Each step of a row gets the next entries of one mask, so a row of packed sequences may have any length."""
        position, site = self._next(Site("dropout", (len(n_rows), x.shape[-1]), float(p)), is_long=True)
        kept = self._sites.kept(position, self._draw or 0, x.device, site)
        return x * kept.repeat_interleave(n_rows.to(x.device), 0) / (1 - p) if p < 1 else torch.zeros_like(x)

    # Random numbers other than dropout

    def _raw(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        if self._draw is None:
            raise _random_in_evaluation_error(func.__name__)
        self.on_raw_call()
        kwargs = {name: value for name, value in kwargs.items() if name not in ("generator", "out")}
        if func in _FILLED:
            return self._filled(func, *args, **kwargs)
        if func in _MADE or func in _LIKE:
            return self._made(func, args, kwargs)
        x, *rest = args if args else (kwargs["input"],)
        if func is Tensor.bernoulli_:
            p = rest[0] if rest else kwargs.get("p", 0.5)
            return x.copy_(self._tossed(p if isinstance(p, Tensor) else torch.full(x.shape, p, device=x.device)))
        p = rest[0] if rest else kwargs.get("p")
        return self._tossed(x if p is None else torch.full_like(x, p)).to(x.dtype)

    def _made(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        if func in _LIKE:
            like = torch.empty_like(*args, **kwargs)
            return self._numbers(_LIKE[func], tuple(like.shape), like.device).to(like.dtype)
        like = func(*args, **{**kwargs, "device": "meta"})  # for the shape and the type alone
        device = torch.device(kwargs.get("device") or torch.get_default_device())
        return self._numbers(_MADE[func], tuple(like.shape), device).to(like.dtype)

    def _filled(self, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        law, names = _FILLED[func]
        given = {**dict(zip(names, (0.0, 1.0), strict=True)), **dict(zip(names, args, strict=False)), **kwargs}
        first, second = (given[name] for name in names)
        scale = second - first if law == "uniform" else second
        return tensor.copy_(self._numbers(law, tuple(tensor.shape), tensor.device) * scale + first)

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
            raise _random_in_evaluation_error(func.__name__)
        raise NetError(
            f"`estimator` draws random numbers by torch's {func.__name__} in training, which cannot be held fixed. "
            "Draw them by torch.rand, torch.randn or bernoulli_, or give the class a method "
            "`sample_posterior(n_draws, rng)`."
        )

    # Places

    @property
    def made_all_calls(self) -> bool:
        """Whether the pass has made all random calls of a pass over a single row."""
        return self._n_rows == 1 or self.position == len(self._sites.of(self._draw))

    def _next(self, site: Site, *, is_long: bool = False) -> tuple[int, Site]:
        """The position of a call, and its site.

        Law and rate are compared with the known call here, and the shape in `axis_of_rows`, unless ``is_long``, with
        which any shape will do.
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
                "`estimator` must make the same random calls in every forward pass, and a pass over "
                f"{self._n_rows} rows made others than a pass over a single row. {ROW_BY_ROW}."
            )
        return position, site if is_long else known[position]

    def _is_watched(self, site: Site, shape: tuple[int, ...]) -> bool:
        return self.watched is not None and rows_in_parts(site.shape, shape, self._n_rows)

    def _spread(self, position: int, numbers: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The numbers of one row, for all rows: unchanged where they broadcast, else repeated along the rows' axis."""
        axis = axis_of_rows(tuple(numbers.shape), shape, self._n_rows)
        if axis is None or numbers.shape[axis] == 1:
            return numbers
        if self._draw in self._sites.of_draw:
            raise folded_error()
        is_one_piece = self._sites.rows_inside.get(position)
        if is_one_piece is None:
            raise PartsError(f"The order of the parts of rows at random call {position} is not known.")
        n_rows = [-1] * (numbers.ndim + 1)
        n_rows[axis if is_one_piece else axis + 1] = self._n_rows
        return numbers.unsqueeze(axis if is_one_piece else axis + 1).expand(n_rows).flatten(axis, axis + 1)


def plain_pass(n_rows: int) -> Pass:
    """A pass in which dropout does nothing."""
    return Pass(_NO_SITES, None, n_rows)


_NO_SITES = Sites(Noise(1, np.random.default_rng(0)))  # of passes that ask for nothing; only read


def _with_fixed_statistics(
    func: Any, input: Tensor, running_mean: Any = None, running_var: Any = None, *args: Any, **options: Any
) -> Tensor:
    """Normalise by the statistics of training in every mode, so that rows do not depend on each other."""
    if running_mean is not None:
        options["training" if func is F.batch_norm else "use_input_stats"] = False
    elif func is F.batch_norm and input.numel() == input.shape[1]:
        raise NetError(
            "`estimator` must compute each row by itself, and its batch norm has no running statistics to normalise a "
            "single row. Train it with `track_running_stats=True`, or with layer or group norm."
        )
    return func(input, running_mean, running_var, *args, **options)


def _check_vmap() -> None:
    """Refuse random calls inside a torch.vmap over anything but rows, in a pass over a single row."""
    vmaps: Any = getattr(torch._C, "_functorch", None)  # torch has no public way to see an active vmap
    if vmaps is None or not hasattr(vmaps, "CVmapInterpreterPtr"):
        return
    stack = vmaps.get_interpreter_stack() or []
    levels = [interpreter for interpreter in stack if interpreter.key() == vmaps.TransformType.Vmap]
    for level in map(vmaps.CVmapInterpreterPtr, levels):
        if level.batchSize() != 1 and level.randomness() != vmaps.RandomnessType.Same:
            raise NetError(
                "`estimator` may map random functions by torch.vmap over rows only, and it maps them over "
                f'{level.batchSize()} parts of a row or of the net. Set randomness="same", or loop over them.'
            )


def _random_in_evaluation_error(function: str) -> NetError:
    return NetError(
        f"`estimator` calls torch's {function} outside of training, too, so that its outputs change from call to call. "
        "Draw random numbers in training only (`if self.training:`), as torch.nn's dropout layers do. A net with "
        "random weights needs a method `sample_posterior(n_draws, rng)`."
    )
