"""Fixed dropout: a forward pass in which all random numbers are those of a draw, the same for all rows.

A posterior draw of MC dropout (Gal and Ghahramani, 2016) is a *function*: one mask for the whole network. A call
belongs to its position in the pass, so that a layer used twice gets two masks; a pass over a single row shows which
numbers it takes for one. In a pass over n rows the axis that is n times as long is that of the rows, wherever it
stands; where none is longer (dropout of weights, for example), all rows share the numbers of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .._utils import devices
from .._utils.validation import NetError
from ._random_calls import OF_ALL_PASSES, TAKES_GENERATOR, RandomCalls, device_of

MAX_KEPT = 64 * 2**20  # bytes that are kept for the next rows where a device does not report its memory, as the host
_KEPT_OF_FREE = 16  # else one part in so many of what is free on it
PROBES = (-1, -2)  # draws that no caller asks for: they drop and keep as many parts of rows as they can
ROW_BY_ROW = "`predict_batch_size`=1 draws row by row"
_OTHER_MASKS = "which is right for each row, but not for BatchBALD and ACS-FW: rows get masks of their own"

_LAWS: dict[Any, str] = {
    **dict.fromkeys((torch.rand, torch.rand_like, Tensor.uniform_), "uniform"),
    **dict.fromkeys((torch.randn, torch.randn_like, Tensor.normal_), "normal"),
    **dict.fromkeys((torch.bernoulli, Tensor.bernoulli, Tensor.bernoulli_), "bernoulli"),
}
_BOUNDS: dict[Any, tuple[str, str]] = {Tensor.uniform_: ("from", "to"), Tensor.normal_: ("mean", "std")}
_REFUSED: set[Any] = {*TAKES_GENERATOR, torch.randint_like, F.gumbel_softmax, torch.native_dropout} - _LAWS.keys()
_NORMS: set[Any] = {F.batch_norm, F.instance_norm}  # they pass all options by name

ANSWERED: set[Any] = {*OF_ALL_PASSES, *_LAWS, *_REFUSED, *_NORMS, Tensor.view}
"""Functions that a pass does not run as they are, for one reason or other."""

_READS: set[Any] = {Tensor.__bool__, Tensor.__float__, Tensor.__int__, Tensor.item, Tensor.numpy, Tensor.tolist}
_READS |= {torch.allclose, torch.equal, Tensor.allclose, Tensor.equal}
_CONVOLUTIONS: set[Any] = {F.conv1d, F.conv2d, F.conv3d}
_LAYERS: set[Any] = {F.linear, *_CONVOLUTIONS, torch.mm, torch.matmul}
_LAYERS |= {Tensor.mm, Tensor.matmul, Tensor.__matmul__}
_NORMALISERS: dict[Any, str] = {
    **dict.fromkeys((F.softmax, torch.softmax, Tensor.softmax), "probabilities"),
    **dict.fromkeys((F.log_softmax, torch.log_softmax, Tensor.log_softmax), "log_probabilities"),
    **dict.fromkeys((F.sigmoid, torch.sigmoid, Tensor.sigmoid, Tensor.sigmoid_, torch.sigmoid_), "sigmoids"),
    **dict.fromkeys((torch.special.expit, F.hardsigmoid), "sigmoids"),  # logits they would be taken for, silently
}
_LOOKED_AT: set[Any] = {*ANSWERED, *_READS, *_LAYERS, *_NORMALISERS}


class OtherCallsError(NetError):
    """A pass makes other random calls than the pass over a single row."""


@dataclass(frozen=True)
class Site:
    """The random numbers that a call takes for a single row."""

    law: str  # "dropout", "uniform", "normal" or "bernoulli"
    shape: tuple[int, ...]
    p: float = 0.0  # probability of being dropped

    @property
    def is_of_units(self) -> bool:
        """Whether units (on the axis behind the rows) are dropped as a whole."""
        shape = self.shape
        return len(shape) > 1 and shape[0] == 1 and all(length == 1 for length in shape[2:])


class Sites:
    """The random calls of a net's forward pass, and the random numbers of all draws there."""

    def __init__(self, n_draws: int, rng: np.random.Generator, generators: Sequence[Any] = ()) -> None:
        self.n_draws = n_draws
        self.generators = generators  # that the net holds: random, as torch's global one is
        self.at: list[Site] = []
        self.of_draw: dict[int, list[Site]] = {}  # of draws whose random numbers lead to other calls
        self.folded: set[int] = set()  # positions of calls that get parts of rows (tokens, windows) on one axis
        self.reads_values = False  # whether a plain pass does
        self.parts_first = False  # whether the rows of one part lie side by side there, not the parts of one row
        self._entropy = rng.integers(2**63, size=4).view(np.uint32)
        self._kept: dict[Any, Tensor] = {}
        self._n_bytes = 0

    def of(self, draw: int | None) -> list[Site]:
        """The calls of a draw."""
        return self.at if draw is None else self.of_draw.get(draw, self.at)

    def numbers(self, position: int, draw: int, device: torch.device, site: Site | None = None) -> Tensor:
        """Random numbers of a draw for one row, not to be changed: booleans of what dropout keeps, or floats."""
        site = self.at[position] if site is None else site
        draw = 0 if draw in PROBES and position not in self.folded else draw
        key = position, draw, device, site
        numbers = self._kept.get(key)
        if numbers is None:
            numbers = self._made(position, draw, site).to(device)
            if self._n_bytes + numbers.nbytes <= most_kept(device):
                self._kept[key] = numbers
                self._n_bytes += numbers.nbytes
        return numbers

    def units(self, position: int) -> Tensor:
        """Units that each draw keeps, (n_draws, n_units), on the host."""
        host = torch.device("cpu")
        return torch.stack([self.numbers(position, draw, host).flatten() for draw in range(self.n_draws)])

    def _made(self, position: int, draw: int, site: Site) -> Tensor:
        # No stream: seeded by the address, on the host, they are the same whenever, wherever and in whatever order they
        # are made; a shape with a longer first axis begins with the same numbers.
        address = np.array([position, draw % 2**32], dtype=np.uint32)
        rng = np.random.default_rng(np.concatenate([self._entropy, address]))
        if site.law == "normal":
            return torch.from_numpy(rng.standard_normal(site.shape, dtype=np.float32))
        numbers = torch.from_numpy(rng.random(site.shape, dtype=np.float32))
        if draw in PROBES:  # near 0 or 1, so that dropout drops or keeps all units, at nearly every rate
            numbers = 0.01 * numbers + 0.99 * PROBES.index(draw)
        return numbers >= site.p if site.law == "dropout" else numbers


def most_kept(device: torch.device) -> int:
    """Bytes of random numbers, or of weights, that may be kept on a device for the next rows."""
    return devices.free_memory(device) // _KEPT_OF_FREE or MAX_KEPT


class Pass(RandomCalls):
    """One forward pass with the random numbers of a draw, at the calls of ``sites``, or that finds these as it learns.

    Without a draw (None) dropout does nothing, and other random calls are refused.
    """

    def __init__(
        self,
        sites: Sites,
        draw: int | None,
        n_rows: int,
        *,
        in_place: bool = True,
        learns: bool = False,
        probes: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.position = 0  # of the next call
        self.layers: list[tuple[Tensor, Tensor, int]] = []  # input and output of layers, and the axis of units, of
        self.tapped = range(0)
        self.n_layers = 0
        self.last_normalised: tuple[str, Tensor] | None = None  # output of the last softmax or sigmoid
        self.normalised: Tensor | None = None  # and its input
        self.on_raw_call: Callable[[], None] = lambda: None  # called at random calls other than dropout
        self.reads_values = False  # whether some left torch, which may decide what is done with all rows of a block
        self.in_place = in_place
        self._sites, self._draw, self._n_rows, self._learns = sites, draw, n_rows, learns
        self._probes = probes  # by row: which of `PROBES` gives the numbers of its parts

    def other(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Answer the other random functions, note layers and the last softmax, and run the rest."""
        if func not in _LOOKED_AT:  # most of them
            return func(*args, **kwargs)
        if kwargs.get("generator") not in (None, *self._sites.generators):
            return func(*args, **kwargs)  # seeded in the pass, it gives the same numbers in each; checks find others
        if func in _LAWS:
            return self._raw(func, args, kwargs)
        if func in _REFUSED:
            return self._refused(func, args, kwargs)
        if func in _NORMS:
            return _with_fixed_statistics(func, *args, **kwargs)
        if func is Tensor.view and not kwargs and len(args) > 1 and not isinstance(args[1], torch.dtype):
            return args[0].reshape(*args[1:])  # the input may have another memory layout than in training
        value = func(*args, **kwargs)
        self.reads_values |= func in _READS
        if func in _LAYERS:
            if self.n_layers in self.tapped:
                axis = 1 if func in _CONVOLUTIONS else value.ndim - 1
                self.layers.append((args[0] if args else kwargs["input"], value, axis))
            self.n_layers += 1
        if func in _NORMALISERS:
            self.last_normalised, self.normalised = (_NORMALISERS[func], value), args[0] if args else kwargs["input"]
        return value

    def entering(self, outputs: Tensor) -> list[Tensor | None]:
        """What entered each of the tapped layers, (n_rows, n_units); None if the outputs are not its own.

        They are if a layer returned them, for one of a row's tokens, say, or they are its probabilities.
        """
        return [_entering(layer, self._logits(outputs)) for layer in self.layers]

    def axis_of_units(self, outputs: Tensor) -> int | None:
        """The axis of outputs, (n_rows, ...), that the tapped layer which made them made; None if none did."""
        logits = self._logits(outputs)
        made = [axis for _, left, axis in self.layers if _are_equal(left, logits)]
        return made[-1] if made else None

    def _logits(self, outputs: Tensor) -> Tensor:
        is_normalised = self.last_normalised is not None and _are_equal(self.last_normalised[1], outputs)
        return self.normalised if is_normalised and self.normalised is not None else outputs

    # Dropout

    def rate(self, p: float, training: bool = True) -> float:
        """The rate at which this pass drops."""
        return p if training and self._draw is not None else 0.0

    def kept(self, x: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
        kept = self._next(Site("dropout", shape, float(p)), shape, x.device)
        # In the memory format of x, if the mask is one for all rows: products of mixed formats are slow.
        return torch.empty_like(x[:1]).copy_(kept) if x.ndim > 2 and len(kept) == 1 else kept.to(x.dtype)

    def drop_steps(self, x: Tensor, p: float, n_rows: Tensor) -> Tensor:
        """Each step of a row gets the next entries of one mask, so a row of packed sequences may have any length."""
        kept = self._next(Site("dropout", (len(n_rows), x.shape[-1]), float(p)), None, x.device)
        return x * kept.repeat_interleave(n_rows.to(x.device), 0) / (1 - p) if p < 1 else torch.zeros_like(x)

    # Random numbers other than dropout

    def _raw(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        self._check_is_draw(func.__name__)
        kwargs = {name: value for name, value in kwargs.items() if name not in ("generator", "out")}
        law = _LAWS[func]
        if law == "bernoulli":
            return self._tossed(func is Tensor.bernoulli_, *args, **kwargs)
        if func in _BOUNDS:
            return self._filled(law, _BOUNDS[func], *args, **kwargs)
        is_like = func in (torch.rand_like, torch.randn_like)
        like = torch.empty_like(*args, **kwargs) if is_like else func(*args, **{**kwargs, "device": "meta"})
        return self._numbers(law, like, device_of(args, kwargs))

    def _filled(self, law: str, names: tuple[str, str], tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        given = {**dict(zip(names, (0.0, 1.0), strict=True)), **dict(zip(names, args, strict=False)), **kwargs}
        first, second = (given[name] for name in names)
        scale = second - first if law == "uniform" else second
        return tensor.copy_(self._numbers(law, tensor) * scale + first)

    def _tossed(self, in_place: bool, input: Tensor, p: Any = None) -> Tensor:
        p = (0.5 if in_place else input) if p is None else p
        p = p if isinstance(p, Tensor) else torch.full(input.shape, p, device=input.device)
        ones = self._next(Site("bernoulli", tuple(p.shape)), tuple(p.shape), p.device).expand(p.shape) < p
        return input.copy_(ones) if in_place else ones.to(input.dtype)

    def _numbers(self, law: str, like: Tensor, device: torch.device | None = None) -> Tensor:
        """Numbers of the shape and type of a tensor, which may be changed."""
        numbers = self._next(Site(law, tuple(like.shape)), tuple(like.shape), device or like.device)
        return numbers.expand(like.shape).to(like.dtype, copy=True, memory_format=torch.contiguous_format)

    def _check_is_draw(self, function: str) -> None:
        if self._draw is None:
            raise NetError(
                f"`estimator` calls torch's {function} outside of training too, so that its outputs change from call "
                "to call. Draw random numbers in training only (`if self.training:`), as torch.nn's dropout layers do, "
                "concrete dropout too. A net with random weights needs a method `sample_posterior(n_draws, rng)`."
            )
        self.on_raw_call()

    def _refused(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self._check_is_draw(func.__name__)
        raise NetError(
            f"`estimator` draws random numbers by torch's {func.__name__} in training, which cannot be held fixed. "
            "Draw them by torch.rand, torch.randn or bernoulli_, or give the class a method "
            "`sample_posterior(n_draws, rng)`."
        )

    # Places

    def check_made_all_calls(self) -> None:
        """Refuse a pass that made fewer random calls than a pass over a single row."""
        if self._n_rows > 1 and self.position != len(self._sites.of(self._draw)):
            raise self._other_calls_error()

    def _next(self, site: Site, shape: tuple[int, ...] | None, device: torch.device) -> Tensor:
        """The numbers of the next call, for all rows; any shape will do if it is None."""
        position, self.position = self.position, self.position + 1
        known = self._sites.of(self._draw)
        if self._learns:
            _check_vmap()
        if self._learns and position == len(known):
            known.append(site)
        if self._n_rows > 1:
            if position >= len(known) or (known[position].law, known[position].p) != (site.law, site.p):
                raise self._other_calls_error()
            site = site if shape is None else known[position]
        numbers = self._sites.numbers(position, self._draw or 0, device, site)
        return numbers if shape is None else self._for_all_rows(position, numbers, shape)

    def _other_calls_error(self) -> OtherCallsError:
        return OtherCallsError(
            f"`estimator` must make the same random calls for one row and for many, but those for {self._n_rows} rows "
            f"differ. {ROW_BY_ROW}, {_OTHER_MASKS}."
        )

    def _for_all_rows(self, position: int, numbers: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The numbers of one row: unchanged where they broadcast, else repeated along the rows' axis."""
        axis = axis_of_rows(tuple(numbers.shape), shape, self._n_rows)
        if axis is None or numbers.shape[axis] == 1:
            return numbers
        if self._draw in self._sites.of_draw:
            raise folded_error()
        self._sites.folded.add(position)
        rows_axis = axis + self._sites.parts_first
        if self._probes is None:
            lengths = [self._n_rows if i == rows_axis else -1 for i in range(numbers.ndim + 1)]
            return numbers.unsqueeze(rows_axis).expand(lengths).flatten(axis, axis + 1)
        of_rows = [self._sites.numbers(position, probe, numbers.device) for probe in self._probes]
        return torch.stack(of_rows, rows_axis).flatten(axis, axis + 1)


def plain_pass(n_rows: int) -> Pass:
    """A pass in which dropout does nothing."""
    return Pass(_NO_SITES, None, n_rows)


def _are_equal(value: Tensor, outputs: Tensor) -> bool:
    return value.shape == outputs.shape and (outputs.is_meta or torch.equal(value.to(outputs.dtype), outputs))


def _entering(layer: tuple[Tensor, Tensor, int], logits: Tensor) -> Tensor | None:
    """What entered a layer where it returned the logits of each row: of a row's tokens, say, the first that did.

    Where logits are those of all of a row's tokens, or pixels, it is the mean over them.
    """
    (entered, left, axis), n_rows, n_logits = layer, len(logits), logits[0].numel()
    if logits.ndim > 2 and _are_equal(left, logits):
        return entered.movedim(axis, 1).flatten(2).mean(2)
    if entered.shape[:1] != (n_rows,) or left.shape[:1] != (n_rows,) or not left.numel() or left[0].numel() % n_logits:
        return None
    left = left.reshape(n_rows, -1, n_logits).to(logits.dtype)
    if entered[0].numel() % left.shape[1]:
        return None
    entered = entered.reshape(n_rows, left.shape[1], -1)
    if logits.is_meta:
        return entered[:, 0]
    is_own = torch.isclose(left, logits.reshape(n_rows, 1, n_logits), rtol=0, atol=0, equal_nan=True).all(-1)
    if not bool(is_own.any(1).all()):
        return None
    return entered[torch.arange(n_rows, device=entered.device), is_own.int().argmax(1)]


_NO_SITES = Sites(1, np.random.default_rng(0))  # of passes that ask for nothing; only read


def axis_of_rows(one: tuple[int, ...], many: tuple[int, ...], n_rows: int) -> int | None:
    """The axis that is ``n_rows`` times as long for many rows as for one; None if the shapes are the same."""
    if one == many:
        return None
    axes = [axis for axis, lengths in enumerate(zip(one, many, strict=False)) if lengths[0] != lengths[1]]
    if len(one) != len(many) or len(axes) != 1 or many[axes[0]] != n_rows * one[axes[0]]:
        raise OtherCallsError(
            "`estimator` must pass rows of one shape to its dropout, so that one mask fits all. A single row had "
            f"the shape {one}, and {n_rows} rows had the shape {many}. Pad rows to one length. {ROW_BY_ROW}, "
            f"{_OTHER_MASKS}."
        )
    return axes[0]


def folded_error() -> NetError:
    return NetError(
        "`estimator` folds parts of a row (tokens, windows) into one axis with the rows before its dropout, in an "
        f"order that is neither row by row nor part by part. {ROW_BY_ROW}, which is always right."
    )


def _with_fixed_statistics(
    func: Any, input: Tensor, running_mean: Any = None, running_var: Any = None, *args: Any, **options: Any
) -> Tensor:
    """Normalise by the statistics of training in every mode, so that rows do not depend on each other."""
    if running_mean is not None:
        options["training" if func is F.batch_norm else "use_input_stats"] = False
    elif func is F.batch_norm and input.numel() == input.shape[1]:
        raise NetError(
            "`estimator` must compute each row by itself, but its batch norm has no running statistics to normalise a "
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
                "`estimator` may map random functions by torch.vmap only over rows, but it maps them over "
                f'{level.batchSize()} parts of a row or of the net. Set randomness="same", or loop over them.'
            )
