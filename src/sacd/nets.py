"""Run-batched networks with an explicit backward pass: in weights the dimension R is here and in batched.py only.

A net is a tuple of layers; its weights for R runs and K copies are `Weights`: float32 masters of shape (R, K, …) that
the optimiser steps, and packed copies in the layout and precision the kernels want, refreshed after each step. On a CPU
the R*K nets are computed one after the other by single-net kernels: nothing is faster there, and run r of a fleet gets
the same bits as run r alone. On a GPU they are computed together (batched.py).

`vjp` gives the outputs and a function from output gradients to weight gradients. No gradient is taken with respect to
observations.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor

from sacd.config import Config
from sacd.errors import EnvError
from sacd.kernels import cpu
from sacd.kernels.gradient import Follower
from sacd.layers import ALIGNED, Conv, Dense, Layer, Packed
from sacd.types import Spec


class AnyWeights(Protocol):
    """One part's weights, however they are computed with."""

    layers: tuple[Layer, ...]
    tensors: dict[str, Tensor]  # float32 masters (R, K, …)

    def split(self, tensors: dict[str, Tensor]) -> list[Tensor]: ...
    def followers(self) -> list[Follower | None]: ...
    def repack(self) -> None: ...
    def refresh(self) -> None: ...
    def move_towards(self, other: Any, tau: float) -> None: ...


class AnyNet(Protocol):
    """An architecture, however it is computed."""

    @property
    def layers(self) -> tuple[Layer, ...]: ...
    def weights(self, tensors: dict[str, Tensor]) -> AnyWeights: ...
    def prepare(self, obs: Any) -> Tensor: ...
    def __call__(self, weights: Any, x: Tensor) -> Tensor: ...
    def vjp(self, weights: Any, x: Tensor) -> tuple[Tensor, Callable[[Tensor], list[Any]]]: ...


class Weights:
    """One net's weights for R runs and K copies, and their packed forms."""

    def __init__(self, layers: tuple[Layer, ...], tensors: dict[str, Tensor]):
        self.layers, self.tensors = layers, tensors
        self.runs, self.copies = next(iter(tensors.values())).shape[:2]
        flat, each = self.split(tensors), len(self.layers)
        pairs = list(zip(flat[::2], flat[1::2], strict=True))  # weight and bias
        self.nets = [pairs[i : i + each] for i in range(0, len(pairs), each)]
        self.packed: list[list[Packed]] = [self._pack(pairs) for pairs in self.nets]
        self._stale = [i for i, (w, _) in enumerate(self.nets[0]) if self.packed[0][i][0] is not w]

    @staticmethod
    def split(tensors: dict[str, Tensor]) -> list[Tensor]:
        """Every single net's tensors as views, in the order of the gradients that `Net.vjp` returns."""
        runs, copies = next(iter(tensors.values())).shape[:2]
        return [t[r, k] for r in range(runs) for k in range(copies) for t in tensors.values()]

    def _pack(self, pairs: list[Packed]) -> list[Packed]:
        return [layer.pack(w, b) for layer, (w, b) in zip(self.layers, pairs, strict=True)]

    def followers(self) -> list[Follower | None]:
        """The optimiser need write nothing along."""
        return [None] * len(self.split(self.tensors))

    def repack(self) -> None:
        """After an optimiser's step."""
        self.refresh()

    def refresh(self) -> None:
        """Bring the packed copies up to date with the masters; float32 matrices are used as they are."""
        for pairs, packed in zip(self.nets, self.packed, strict=True):
            for i in self._stale:
                packed[i] = self.layers[i].pack(*pairs[i])

    def move_towards(self, other: "Weights", tau: float) -> None:
        """Targets: Polyak averaging, or a hard copy at tau = 1."""
        mine, theirs = list(self.tensors.values()), list(other.tensors.values())
        torch._foreach_lerp_(mine, theirs, tau) if tau < 1 else torch._foreach_copy_(mine, theirs)
        self.refresh()


def _aligned(x: Tensor) -> Tensor:
    """The same numbers where a tensor of its own would lie, so that they give the same bits."""
    return x if x.data_ptr() % ALIGNED == 0 else x.clone()


@dataclass(frozen=True)
class Net:
    """An architecture: what maps an observation (B, *obs) to A numbers."""

    layers: tuple[Layer, ...]
    image: bool

    def weights(self, tensors: dict[str, Tensor]) -> Weights:
        """Weights that this net can use."""
        return Weights(self.layers, tensors)

    def prepare(self, obs: Tensor) -> Tensor:
        """Observations (R, B, *obs) as the first layer wants them; computed once for all nets that see them."""
        first = self.layers[0]
        if not isinstance(first, Conv):
            return obs.to(first.dtype)
        r, b, s, h, w = obs.shape[:5]
        h, w = first.reach(h), first.reach(w)
        frames = obs.reshape(r * b, s, *obs.shape[3:5], -1)[:, :, :h, :w]
        return cpu.stack_to_depth(frames, first.block).to(first.dtype).unflatten(0, (r, b))

    def __call__(self, weights: Weights, x: Tensor) -> Tensor:
        """Outputs (R, K, B, A) for prepared observations (R, B, …)."""
        runs = [_aligned(each) for each in x]
        return self._join(
            weights, [self._forward(p, runs[i // weights.copies])[0] for i, p in enumerate(weights.packed)]
        )

    def vjp(self, weights: Weights, x: Tensor) -> tuple[Tensor, Callable[[Tensor], list[Tensor]]]:
        """Outputs as `__call__`, and the pull-back from output gradients to weight gradients, as `Weights.split`."""
        runs = [_aligned(each) for each in x]
        done = [self._forward(p, runs[i // weights.copies]) for i, p in enumerate(weights.packed)]

        def pull(grad: Tensor) -> list[Tensor]:
            each = zip(weights.packed, done, grad.flatten(0, 1), strict=True)
            return [g for packed, (_, tape), slope in each for g in self._backward(packed, tape, slope)]

        return self._join(weights, [y for y, _ in done]), pull

    @staticmethod
    def _join(weights: Weights, outputs: list[Tensor]) -> Tensor:
        return torch.stack(outputs).view(weights.runs, weights.copies, *outputs[0].shape)

    def _forward(self, packed: list[Packed], x: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor, torch.Size]]]:
        tape = []
        for layer, p in zip(self.layers, packed, strict=True):
            shape = x.shape
            x, seen = layer.forward(x, p)
            tape.append((seen, x, shape))
        return x, tape

    def _backward(self, packed: list[Packed], tape: list, grad: Tensor) -> list[Tensor]:
        found: list[Tensor] = []
        for i in range(len(self.layers) - 1, -1, -1):
            seen, y, shape = tape[i]
            grad = grad if grad.dtype == y.dtype else grad.to(y.dtype)
            grad, dw, db = self.layers[i].adjoint(grad, seen, y, packed[i], shape if i else None)
            found[:0] = (dw, db)
        return found


def parameters(net: AnyNet) -> int:
    """Numbers in one net."""
    return sum(math.prod(layer.shape) + layer.outputs for layer in net.layers)


def build(spec: Spec, config: Config) -> Net:
    """The architecture for an environment: the Nature CNN for images, an MLP for vectors."""
    torso = config.torso if config.torso != "auto" else ("nature" if spec.image else "mlp")
    dtype = torch.bfloat16 if config.precision == "bf16" else torch.float32
    if (torso == "nature") != spec.image:
        fits = "nature" if spec.image else "mlp"
        raise EnvError(f"--torso {torso} does not fit observations of shape {spec.obs}; take --torso {fits} or auto.")
    if not spec.image:  # vectors enter as they are: few numbers, of any size
        return Net(_dense((math.prod(spec.obs), *config.hidden), spec.actions, config.activation, dtype, True), False)
    shapes = list(zip(config.conv_channels, config.conv_kernels, config.conv_strides, strict=True))
    h, w = spec.frame[:2]
    channels, layers = spec.stack * math.prod(spec.frame[2:]), []
    for i, (outputs, kernel, stride) in enumerate(shapes):
        layers.append(Conv(channels, outputs, kernel, stride, frames=spec.stack if i == 0 else 0, dtype=dtype))
        h, w, channels = cpu.conv_size(h, kernel, stride), cpu.conv_size(w, kernel, stride), outputs
    if h < 1 or w < 1:
        least = reduce(lambda size, shape: (size - 1) * shape[2] + shape[1], reversed(shapes), 1)
        size = f"{spec.frame[0]}x{spec.frame[1]}"
        raise EnvError(f"images of {size} are too small for these convolutions; they need {least}x{least}.")
    return Net((*layers, *_dense((h * w * channels, *config.dense), spec.actions, "relu", dtype)), True)


def _dense(
    sizes: tuple[int, ...], actions: int, activation: str, dtype: torch.dtype, exact_first: bool = False
) -> tuple[Dense, ...]:
    """Hidden layers of these sizes, and the last one, which is always float32."""
    kinds = [torch.float32 if exact_first and i == 0 else dtype for i in range(len(sizes) - 1)]
    hidden = (Dense(i, o, activation, kind) for (i, o), kind in zip(pairwise(sizes), kinds, strict=True))
    return (*hidden, Dense(sizes[-1], actions))
