"""All R x K nets of a fleet as batched products: how a GPU computes what a CPU does net after net (nets.py).

The layers, the masters (R, K, …) and the meaning of `prepare`, `__call__` and `vjp` are those of `nets.Net`; N = R*K
nets are one product. Convolutions run in their dense form (kernels/conv.py), each layer's output stored in the blocks
that the next one reads. Only the pixels and places that reach the last layer are computed.

Everything here keeps its memory: packed weights are refreshed in place, so an update can be recorded once and replayed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from sacd.kernels import conv, cpu
from sacd.layers import ADJOINT, APPLY, Conv, Layer
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
        self.packed = [self._pack(i) for i in range(len(layers))]

    @staticmethod
    def split(tensors: dict[str, Tensor]) -> list[Tensor]:
        """What the optimiser steps, in the order of the gradients that `BatchedNet.vjp` returns."""
        return list(tensors.values())

    def casts(self) -> list[Tensor | None]:
        """Packed tensors that are no more than the master in another precision: the optimiser writes them along."""
        flat = [t for pair in self.packed for t in pair]
        plain = [not isinstance(layer, Conv) for layer in self.layers for _ in range(2)]
        other = [t.dtype != master.dtype for t, master in zip(flat, self.tensors.values(), strict=True)]
        return [t if a and b else None for t, a, b in zip(flat, plain, other, strict=True)]

    def repack(self) -> None:
        """After an optimiser's step: bring what it does not write up to date."""
        self._refresh([i for i, layer in enumerate(self.layers) if isinstance(layer, Conv)])

    def refresh(self) -> None:
        """Bring all packed tensors up to date with the masters, where they lie."""
        self._refresh(range(len(self.layers)))

    def _refresh(self, layers: Iterable[int]) -> None:
        for i in layers:
            for mine, new in zip(self.packed[i], self._pack(i), strict=True):
                if mine.data_ptr() != new.data_ptr():  # else it is the master itself
                    mine.copy_(new)

    def _pack(self, i: int) -> tuple[Tensor, Tensor]:
        flat = list(self.tensors.values())[2 * i : 2 * i + 2]
        return pack(self.layers[i], *(t.flatten(0, 1) for t in flat))

    def move_towards(self, other: "BatchedWeights", tau: float) -> None:
        """Targets: Polyak averaging, or a hard copy at tau = 1."""
        mine, theirs = list(self.tensors.values()), list(other.tensors.values())
        torch._foreach_lerp_(mine, theirs, tau) if tau < 1 else torch._foreach_copy_(mine, theirs)
        self.refresh()


def pack(layer: Layer, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Masters (N, …) as the products want them: a convolution's kernel is (N, T*T*C, O)."""
    if isinstance(layer, Conv):
        n, (o, i, k, _), s, f = len(weight), layer.shape, layer.stride, layer.frames or 1
        split = weight.view(n, o, f, i // f, k // s, s, k // s, s)
        weight = split.permute(0, 4, 6, 2, 5, 7, 3, 1).reshape(n, -1, o)  # row, column, frame, y, x, colour
        weight = weight / PIXEL if layer.frames else weight
    return weight.to(layer.dtype), bias.to(layer.dtype)


def unpack(layer: Conv, grad: Tensor) -> Tensor:
    """The adjoint of `pack` for a kernel's gradient."""
    n, (o, i, k, _), s, f = len(grad), layer.shape, layer.stride, layer.frames or 1
    split = grad.view(n, k // s, k // s, f, s, s, i // f, o)
    kernel = split.permute(0, 7, 3, 6, 1, 4, 2, 5).reshape(n, o, i, k, k).contiguous()
    return kernel / PIXEL if layer.frames else kernel


@dataclass(frozen=True)
class BatchedNet:
    """An architecture, all nets at once."""

    layers: tuple[Layer, ...]
    plans: tuple[Plan, ...]
    crop: tuple[int, int]  # pixels of the image that are needed

    def weights(self, tensors: dict[str, Tensor]) -> BatchedWeights:
        """Weights that this net can use."""
        return BatchedWeights(self.layers, tensors)

    def prepare(self, obs: Tensor) -> Tensor:
        """Observations (R, B, *obs) as the first layer wants them: images as bytes in blocks."""
        first = self.layers[0]
        if not isinstance(first, Conv):
            return obs.to(first.dtype)
        r, b, s = obs.shape[:3]
        frames = obs.reshape(r * b, s, *obs.shape[3:5], -1)[:, :, : self.crop[0], : self.crop[1]]
        return cpu.stack_to_depth(frames, first.stride).unflatten(0, (r, b))

    def __call__(self, weights: BatchedWeights, x: Tensor) -> Tensor:
        """Outputs (R, K, B, A) for prepared observations (R, B, …)."""
        return self._forward(weights, x)[-1].unflatten(0, (weights.runs, weights.copies))

    def vjp(self, weights: BatchedWeights, x: Tensor) -> tuple[Tensor, Callable[[Tensor], list[Tensor]]]:
        """Outputs as `__call__`, and the pull-back from output gradients to gradients of the masters."""
        tape = self._forward(weights, x)

        def pull(grad: Tensor) -> list[Tensor]:
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
                x = x.flatten(2).to(layer.dtype)
                x = x if len(x) == nets else x.repeat_interleave(weights.copies, 0)
                x = APPLY[layer.activation](torch.baddbmm(b[:, None], x, w.mT))
            tape.append(x)
        return tape

    def _backward(self, weights: BatchedWeights, tape: list[Tensor], grad: Tensor) -> list[Tensor]:
        found: list[Tensor] = []
        for i in range(len(self.layers) - 1, -1, -1):
            layer, w, x = self.layers[i], weights.packed[i][0], tape[i]
            if isinstance(layer, Conv):  # its ReLU is already behind us
                plan = self.plans[i]
                dw, db = conv.weight_gradient(x, grad, plan.side)
                dw = unpack(layer, dw)
                if i:
                    before = self.plans[i - 1]
                    grad = conv.input_gradient(grad, w, x, plan.side, before.block, before.grid)
            else:
                grad = ADJOINT[layer.activation](grad.to(layer.dtype), tape[i + 1])
                dw, db = _dense_gradients(grad, x, weights.copies)
                grad = torch.bmm(grad, w) if i else grad
                if i and isinstance(self.layers[i - 1], Conv):
                    grad = conv.on_grid(ADJOINT["relu"](grad.view(x.shape), x), self.plans[i - 1].grid)
            found[:0] = (dw.view(weights.runs, weights.copies, *layer.shape), db.view(weights.runs, weights.copies, -1))
        return found


def _dense_gradients(grad: Tensor, x: Tensor, copies: int) -> tuple[Tensor, Tensor]:
    """Weight and bias gradients in float32."""
    rows = x.flatten(2).to(grad.dtype)
    rows = rows if len(rows) == len(grad) else rows.repeat_interleave(copies, 0)
    if grad.is_cuda and grad.dtype != torch.float32:
        return torch.bmm(grad.mT, rows, out_dtype=torch.float32), grad.sum(1, dtype=torch.float32)
    return torch.bmm(grad.mT, rows).float(), grad.sum(1, dtype=torch.float32)


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
