"""All R x K nets of a fleet as batched products: how a GPU computes what a CPU does net after net (nets.py).

The layers, the masters (R, K, …) and the meaning of `prepare`, `__call__` and `vjp` are those of `nets.Net`; N = R*K
nets are one product. Convolutions run in their dense form (kernels/conv.py), each layer's output stored in the blocks
that the next one reads. Only the pixels and places that reach the last layer are computed.

Everything here keeps its memory: packed weights are refreshed in place, so an update can be recorded once and replayed.
Gradients leave in the order of the packed copies, and not yet summed or multiplied where the optimiser can do that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sacd.kernels import conv, cpu, dense, frames
from sacd.kernels.frames import Stacks
from sacd.kernels.gradient import Follower, Gradient
from sacd.layers import Conv, Layer
from sacd.nets import Net

PIXEL = 255


@dataclass(frozen=True)
class Plan:
    """How one convolution runs."""

    side: int  # kernel width in blocks
    grid: tuple[int, int]  # of the input, in blocks
    size: tuple[int, int]  # output places that are needed
    block: int  # in which the next layer reads them: its stride


class BatchedWeights:
    """Masters (R, K, …) of one part, and their packed copies as (N, …) matrices."""

    def __init__(self, layers: tuple[Layer, ...], tensors: dict[str, Tensor]):
        self.layers, self.tensors = layers, tensors
        self.runs, self.copies = next(iter(tensors.values())).shape[:2]
        flat = [t.flatten(0, 1) for t in tensors.values()]
        masters = [flat[i : i + 2] for i in range(0, len(flat), 2)]  # of each layer: weight and bias
        self.packed = [pack(layer, *pair) for layer, pair in zip(layers, masters, strict=True)]
        each = zip(layers, self.packed, masters, strict=True)
        self._followers = [f for layer, pair, mine in each for f in self._follow(layer, pair, mine)]

    @staticmethod
    def split(tensors: dict[str, Tensor]) -> list[Tensor]:
        """What the optimiser steps, in the order of the gradients that `BatchedNet.vjp` returns."""
        return list(tensors.values())

    def followers(self) -> list[Follower | None]:
        """The packed copies, for the optimiser to write along; None where a product reads the master itself."""
        return self._followers

    def _follow(self, layer: Layer, pair: tuple[Tensor, Tensor], masters: list[Tensor]) -> list[Follower | None]:
        """A layer's followers, of weight and bias."""
        place, scale = None, 1.0
        if isinstance(layer, Conv):
            place, scale = _places(layer).to(pair[0].device), 1 / PIXEL if layer.frames else 1.0
        found = [Follower(pair[0].view(len(pair[0]), -1), place, scale), Follower(pair[1])]
        return [f if f.tensor.data_ptr() != m.data_ptr() else None for f, m in zip(found, masters, strict=True)]

    def repack(self) -> None:
        """After an optimiser's step there is nothing to do: it writes the copies along."""

    def refresh(self) -> None:
        """Bring all packed tensors up to date with the masters, where they lie."""
        for follower, master in zip(self._followers, self.tensors.values(), strict=True):
            if follower is not None:
                follower.write(master)

    def move_towards(self, other: "BatchedWeights", tau: float) -> None:
        """Targets: Polyak averaging, or a hard copy at tau = 1."""
        mine, theirs = list(self.tensors.values()), list(other.tensors.values())
        torch._foreach_lerp_(mine, theirs, tau) if tau < 1 else torch._foreach_copy_(mine, theirs)
        self.refresh()


def pack(layer: Layer, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Masters (N, …) as the products want them: a convolution's kernel is (N, T*T*C, O)."""
    if isinstance(layer, Conv):
        weight = _arrange(layer, weight)
        weight = weight * (1 / PIXEL) if layer.frames else weight
    return weight.to(layer.dtype), bias.to(layer.dtype)


def _arrange(layer: Conv, weight: Tensor) -> Tensor:
    """(N, O, I, k, k) -> (N, T*T*C, O): rows in the order row, column, frame, y, x, colour."""
    n, (o, i, k, _), s, f = len(weight), layer.shape, layer.stride, layer.frames or 1
    split = weight.view(n, o, f, i // f, k // s, s, k // s, s)
    return split.permute(0, 4, 6, 2, 5, 7, 3, 1).reshape(n, -1, o)


def _places(layer: Conv) -> Tensor:
    """The packed row of each of a kernel's inputs."""
    inputs = torch.arange(math.prod(layer.shape[1:])).expand(layer.outputs, -1)
    return _arrange(layer, inputs.reshape(1, *layer.shape))[0, :, 0].argsort().int()


@dataclass(frozen=True)
class BatchedNet:
    """An architecture, all nets at once."""

    layers: tuple[Layer, ...]
    plans: tuple[Plan, ...]
    crop: tuple[int, int]  # pixels of the image that are needed

    def weights(self, tensors: dict[str, Tensor]) -> BatchedWeights:
        """Weights that this net can use."""
        return BatchedWeights(self.layers, tensors)

    def prepare(self, obs: Tensor | Stacks) -> Tensor:
        """Observations (R, B, *obs) as the first layer wants them: images in blocks, in its precision."""
        first = self.layers[0]
        if isinstance(first, Conv):
            if not isinstance(obs, Stacks):
                rows = torch.arange(math.prod(obs.shape[:3]), device=obs.device).view(obs.shape[:3])
                obs = Stacks(obs.flatten(0, 2), rows)
            return frames.blocks(obs.tape, obs.rows, first.stride, self.crop, first.dtype)
        assert not isinstance(obs, Stacks), "vectors are gathered by the tape"
        return obs.flatten(2).to(first.dtype)

    def __call__(self, weights: BatchedWeights, x: Tensor) -> Tensor:
        """Outputs (R, K, B, A) for prepared observations (R, B, …)."""
        return self._forward(weights, x)[-1].unflatten(0, (weights.runs, weights.copies))

    def vjp(self, weights: BatchedWeights, x: Tensor) -> tuple[Tensor, Callable[[Tensor], list[Gradient]]]:
        """Outputs as `__call__`, and the pull-back from output gradients to gradients for the optimiser."""
        tape = self._forward(weights, x)

        def pull(grad: Tensor) -> list[Gradient]:
            return self._backward(weights, tape, grad.flatten(0, 1))

        return tape[-1].unflatten(0, (weights.runs, weights.copies)), pull

    def _forward(self, weights: BatchedWeights, x: Tensor) -> list[Tensor]:
        """The input and every layer's output."""
        tape, nets = [x], weights.runs * weights.copies
        for i, (layer, (w, b)) in enumerate(zip(self.layers, weights.packed, strict=True)):
            if isinstance(layer, Conv):
                plan = self.plans[i]
                x = conv.forward(x, w, b, plan.side, plan.size, plan.block)
            else:
                after = self.layers[min(i + 1, len(self.layers) - 1)].dtype
                x = dense.forward(_rows(x, nets), w, b, layer.activation, after)
            tape.append(x)
        return tape

    def _backward(self, weights: BatchedWeights, tape: list[Tensor], grad: Tensor) -> list[Gradient]:
        found: list[Gradient] = []
        for i in range(len(self.layers) - 1, -1, -1):
            layer, w, x = self.layers[i], weights.packed[i][0], tape[i]
            if isinstance(layer, Conv):  # its ReLU is already behind us
                plan = self.plans[i]
                found[:0] = conv.weight_gradient(x, grad, plan.side)
                if i:
                    before = self.plans[i - 1]
                    grad = conv.input_gradient(grad, w, x, plan.side, before.block, before.grid)
                continue
            grad, *pair = dense.gradients(grad, _rows(x, len(grad)), tape[i + 1], layer.activation)
            found[:0] = pair
            grad = torch.bmm(grad, w) if i else grad
            if i and isinstance(self.layers[i - 1], Conv):
                grad = conv.relu_on_grid(grad, x, self.plans[i - 1].grid)
        return found


def _rows(x: Tensor, nets: int) -> Tensor:
    """A dense layer's input (N, B, I): nets that see the same have it each."""
    rows = x.flatten(2)
    return rows if len(rows) == nets else rows.repeat_interleave(nets // len(rows), 0)


def batched(net: Net, frame: tuple[int, ...]) -> BatchedNet:
    """The same architecture for batched products, over frames of this shape."""
    convs = [layer for layer in net.layers if isinstance(layer, Conv)]
    high, wide = frame[:2] if convs else (0, 0)
    for layer in convs:
        high, wide = (cpu.conv_size(n, layer.kernel, layer.stride) for n in (high, wide))
    sizes: list[tuple[int, int]] = []
    for layer in reversed(convs):  # from the last places back to the pixels they need
        sizes.insert(0, (high, wide))
        high, wide = ((n - 1) * layer.stride + layer.kernel for n in (high, wide))
    blocks = [layer.stride for layer in convs[1:]] + [1]
    sides = [layer.kernel // layer.stride for layer in convs]
    grids = [(h + t - 1, v + t - 1) for (h, v), t in zip(sizes, sides, strict=True)]
    plans = (Plan(*each) for each in zip(sides, grids, sizes, blocks, strict=False))  # an MLP has none
    return BatchedNet(net.layers, tuple(plans), (high, wide))
