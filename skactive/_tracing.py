"""A module in two parts: what is the same for all draws, and the rest.

`torch.fx` writes down the calls of a module's forward pass as a graph. Running the graph once under a mask shows which
values depend on one; the others are computed once for all draws. Where tracing fails, gives other values than the
module (control flow that looks at data), or tensors are changed in place across the cut, the module stays whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, fx, nn

from ._masks import Masks

FLATTEN = "flatten"


@dataclass(frozen=True)
class Step:
    """A call of a chain, from one tensor to the next."""

    call: Callable[[Tensor], Tensor]
    target: Any  # the layer or the function, the name of the method, or FLATTEN
    shape: tuple[int, ...]  # of what it returns, rows included
    masks: range  # positions of its dropout calls


@dataclass(frozen=True)
class Split:
    """``rest(*shared(x))`` is ``module(x)``, and masks matter in the rest only."""

    shared: Callable[[Tensor], tuple[Any, ...]]
    rest: Callable[..., Tensor]
    chain: list[Step]  # the rest again where it is a chain that begins with the one shared value; else empty


def run_steps(chain: list[Step], x: Tensor) -> Tensor:
    for step in chain:
        x = step.call(x)
    return x


def split(module: nn.Module, masks: Masks, x: Tensor) -> Split | None:
    """Split a module by running it on rows; None where it has to stay whole."""
    if any(m._forward_hooks or m._forward_pre_hooks for m in module.modules()):
        return None  # what a hook does would be lost
    try:
        graph = fx.Tracer().trace(module)
        watch = _Watch(module, graph, masks)
        masks.run(0, watch.run, x.clone())
        outputs = fx.Interpreter(module, graph=graph).run(x.clone())
    except Exception:  # tracing runs the module's own code on stand-ins for tensors: anything may come of it
        return None
    is_same = isinstance(outputs, Tensor) and torch.allclose(outputs, module(x.clone()), 0, 0, equal_nan=True)
    return _cut(module, watch) if is_same and watch.cut_is_clean() else None


class _Watch(fx.Interpreter):
    """Runs a graph and notes which values depend on a mask, and what they take from values that do not."""

    def __init__(self, module: nn.Module, graph: fx.Graph, masks: Masks) -> None:
        super().__init__(module, graph=graph)
        self.masks = masks
        self.drawn: dict[fx.Node, range] = {}  # and the positions of the masks used
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}  # of the values that are tensors
        self.taken: dict[fx.Node, tuple[Any, int | None]] = {}  # what drawn values take of others, and its version

    def run_node(self, node: fx.Node) -> Any:
        first = self.masks.position
        taken = {n: (self.env[n], _version(self.env[n])) for n in node.all_input_nodes if n not in self.drawn}
        value = super().run_node(node)
        positions = range(first, self.masks.position)
        if isinstance(value, Tensor):
            self.shapes[node] = tuple(value.shape)
        if positions or node.op == "output" or len(taken) < len(node.all_input_nodes):
            self.drawn[node] = positions
            self.taken = {**taken, **self.taken}
        return value

    def cut_is_clean(self) -> bool:
        """Whether what was taken was changed in place by nobody, so that it can be computed beforehand, and once."""
        return all(_version(value) == version for value, version in self.taken.values())


def _version(value: Any) -> int | None:
    return value._version if isinstance(value, Tensor) else None


def _cut(module: nn.Module, watch: _Watch) -> Split:
    _lay_channels_last(module, watch.graph)
    *nodes, last = watch.graph.nodes
    shared = [node for node in nodes if node not in watch.drawn]
    rest = [node for node in nodes if node in watch.drawn]
    between = sorted(watch.taken, key=lambda node: node not in watch.shapes)  # tensors first
    chain = _chain(module, watch, [*between[:1], *rest], last.args[0])
    if chain:
        return Split(_part(module, [], shared, (between[0],)), partial(run_steps, chain), chain)
    return Split(_part(module, [], shared, tuple(between)), _part(module, between, rest, last.args[0]), [])


def _lay_channels_last(module: nn.Module, graph: fx.Graph) -> None:
    """Let images pass with the channels of a pixel side by side: max-pooling on the CPU is ten times faster then."""
    for layer in module.modules():
        if type(layer) is nn.Conv2d:
            layer.weight.data = layer.weight.data.to(memory_format=torch.channels_last)
    for node in graph.nodes:
        if node.op == "call_method" and node.target == "view":
            node.target = "reshape"


def _part(module: nn.Module, inputs: list[fx.Node], nodes: list[fx.Node], output: Any) -> fx.GraphModule:
    graph = fx.Graph()
    copies = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(fx.map_arg(output, copies.__getitem__))
    return fx.GraphModule(module, graph)


def _chain(module: nn.Module, watch: _Watch, nodes: list[fx.Node], output: Any) -> list[Step]:
    """Steps from the first of the nodes to the output, if each takes the tensor before it and no other; else none."""
    tensors = [node for node in nodes if node in watch.shapes]  # others are the length of an axis, say
    steps = [_step(module, watch, before, node) for before, node in pairwise(tensors)]
    is_chain = all(steps) and tensors[:1] == nodes[:1] and tensors[-1:] == [output]
    return [step for step in steps if step] if is_chain else []


def _step(module: nn.Module, watch: _Watch, before: fx.Node, node: fx.Node) -> Step | None:
    if [n for n in node.all_input_nodes if n in watch.shapes] != [before]:
        return None
    target: Any = module.get_submodule(str(node.target)) if node.op == "call_module" else node.target
    shape, masks = watch.shapes[node], watch.drawn[node]
    if _flattens(target, watch.shapes[before], shape):
        return Step(nn.Flatten(), FLATTEN, shape, masks)
    if node.all_input_nodes != [before]:
        return None

    def call(x: Tensor) -> Tensor:
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda _: x)
        if node.op == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs)

    is_bare = node.op != "call_method" and node.args == (before,) and not node.kwargs
    return Step(target if is_bare else call, target, shape, masks)


def _flattens(target: Any, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether each row's values are laid out one after the other, however that is written."""
    is_layout = target in {"flatten", "reshape", "view", torch.flatten} or type(target) is nn.Flatten
    return is_layout and len(before) > 2 and after == (before[0], math.prod(before[1:]))
