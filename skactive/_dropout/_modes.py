"""What is random in a module in training, and how a copy is set so that this, and nothing else, is as in training.

Layers may look at ``self.training`` to switch their dropout (of paths, of attention). So all parts of the copy are put
in training mode, except those that normalise. With everything random switched off, the copy then has to return the
same as in evaluation mode; it may return other outputs beside. A module that does not does more in training than drop
units, and the same dropout has to be found in evaluation mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from .._checks import NetError, NoDropoutError
from ._frozen import FrozenNet, copied, is_close
from ._masks import Pass, plain_pass
from ._nested import parts_of
from ._sites import Site, Sites


def find_mode(net: FrozenNet, one: Any, sites: Sites) -> bool:
    """Set the copy for draws, and find its random calls; returns whether dropout counts only if asked for in training.

    Parameters
    ----------
    net : FrozenNet
    one : batch
        A batch of one row.
    sites : Sites
        Gets the calls.
    """
    net.module.eval()
    plain, _ = net.plain(one, 1)
    _check_answer(net, plain)
    _train_only(net.module, _parts_to_train(net.module))
    failure, in_training = "", None
    try:
        n_at_rate_zero, is_same = _learn(net, one, sites, plain)
    except NetError as error:
        if error.__cause__ is None:
            raise
        failure = f" ({error.__cause__!r})"  # from the code of the module, which may need labels in training
    else:
        if is_same and not sites.at:
            has = f"{n_at_rate_zero} of rate 0" if n_at_rate_zero else "none"
            remedy = "Set a rate above 0" if n_at_rate_zero else "Add torch.nn.Dropout layers"
            raise NoDropoutError(
                f"`estimator` must have a dropout layer with a rate above 0 to be drawn from, and this {net.name} has "
                f"{has}: all draws would be the same function and BALD 0 everywhere. {remedy}, or give the query "
                'posterior="bootstrap".'
            )
        if is_same:
            return True
        in_training = sites.at
    is_steady = in_training is not None and _is_steady(net, one, sites)
    net.module.eval()
    _learn(net, one, sites, plain, heeds_training=False)
    if not (is_steady and in_training and sorted(map(_law_of, in_training)) == sorted(map(_law_of, sites.at))):
        raise NetError(
            "`estimator` must differ between training and evaluation by its dropout alone, and the outputs of this "
            f"{net.name} differ with dropout switched off, too{failure}. Let only dropout and normalisation depend on "
            "`self.training`, keep no state between calls, and draw random numbers by torch.rand or bernoulli_; or "
            "give the class a method `sample_posterior(n_draws, rng)`."
        )
    return False


def _learn(net: FrozenNet, one: Any, sites: Sites, plain: Tensor, *, heeds_training: bool = True) -> tuple[int, bool]:
    """Find the random calls of a pass over a single row.

    Returns how often dropout had rate 0, and whether the outputs without anything random are those of evaluation.
    """
    sites.at = []
    masks = Pass(sites, 0, 1, heeds_training=heeds_training, learns=True)
    raw: list[nn.Module] = []
    with _calling_parts(net.module) as calling:
        masks.on_raw_call = lambda: raw.append(calling[-1])
        with masks:
            net.all_outputs(copied(one))
    modes = [(part, part.training) for part in raw]
    for part in raw:  # parts that draw random numbers by themselves are switched off by evaluation mode
        part.training = False
    try:
        with plain_pass(1):
            is_same = net.find(plain, net.all_outputs(copied(one)))
    finally:
        for part, mode in reversed(modes):
            part.training = mode
    return masks.n_at_rate_zero, is_same


def _is_steady(net: FrozenNet, one: Any, sites: Sites) -> bool:
    """Whether draw 0 is the same at every call in training, so that every random number there was found."""

    def outputs() -> list[Tensor]:
        with Pass(sites, 0, 1):
            return list(parts_of(net.all_outputs(copied(one))))

    first, *others = (outputs() for _ in range(4))
    return all(len(each) == len(first) and all(map(is_close, each, first)) for each in others)


def _law_of(site: Site) -> tuple[Any, ...]:
    return site.law, site.shape, site.p, site.is_alpha


def _parts_to_train(module: nn.Module) -> list[nn.Module]:
    """The parts that training mode switches to the posterior: all but those that update statistics."""
    module.train()
    return [part for part in module.modules() if part.training and not _normalises(part)]


def _normalises(part: nn.Module) -> bool:
    names = {type(part).__name__, *(type(hook).__name__ for hook in part._forward_pre_hooks.values())}
    return isinstance(part, nn.modules.batchnorm._NormBase) or bool(names & {"_SpectralNorm", "SpectralNorm"})


def _train_only(module: nn.Module, parts: list[nn.Module]) -> None:
    for part in module.modules():
        part.training = False
    for part in parts:
        part.training = True


@contextmanager
def _calling_parts(module: nn.Module) -> Iterator[list[nn.Module]]:
    """A list that holds, at any time, the parts of a module whose forward passes are running."""
    calling: list[nn.Module] = [module]
    hooks = []
    for part in module.modules():
        hooks.append(part.register_forward_pre_hook(lambda part, _: calling.append(part)))
        hooks.append(part.register_forward_hook(lambda *_: (calling.pop(), None)[1]))
    try:
        yield calling
    finally:
        for hook in hooks:
            hook.remove()


def _check_answer(net: FrozenNet, outputs: Tensor) -> None:
    """Refuse outputs that do not fit a single row."""
    if outputs.ndim < 1 or len(outputs) != 1:
        raise NetError(
            f"`estimator` must return one output for each row: this {net.name} returned outputs of shape "
            f"{tuple(outputs.shape)} for a single row."
        )
    if outputs.device.type == "meta" or not bool(outputs.isnan().any()):
        return
    weights = [name for name, weight in net.module.named_parameters() if not bool(weight.isfinite().all())]
    remedy = (
        f"Its weights {weights[0]!r} are not finite: training diverged, or loading failed. Train it again."
        if weights
        else "Its weights are finite: look for missing or very large values in this row."
    )
    raise NetError(f"`estimator` must return numbers, and this {net.name} returns NaN for the first row. {remedy}")
