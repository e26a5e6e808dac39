"""Gradients as the products of many nets leave them, and packed copies that follow the masters.

A gradient is whole, or parts to be summed, or two factors to be multiplied: whoever uses it does that on the way.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Summed:
    """A gradient (N, …) as parts (S, N, …) to be summed."""

    parts: Tensor

    def dense(self) -> Tensor:
        return self.parts.sum(0)


@dataclass(frozen=True)
class Product:
    """A gradient (N, O, I) as left^T right of each net: (N, B, O), (N, B, I)."""

    left: Tensor
    right: Tensor

    def dense(self) -> Tensor:
        return torch.bmm(self.left.mT.float(), self.right.float())


Gradient = Tensor | Summed | Product


@dataclass(frozen=True)
class Follower:
    """A packed copy of N nets' masters; gradients of masters that have one come in its order."""

    tensor: Tensor  # (N, P)
    place: Tensor | None  # (P,) int32: where the master's numbers lie; None: in the same order
    scale: float = 1.0  # what the copy is multiplied by

    def pull(self, gradient: Tensor) -> Tensor:
        """The master's gradient from the copy's."""
        flat = gradient.reshape(self.tensor.shape)
        return (flat if self.place is None else flat[:, self.place]) * self.scale

    def write(self, value: Tensor) -> None:
        """Follow the master."""
        flat = value.reshape(self.tensor.shape)
        if self.place is None:
            self.tensor.copy_(flat)
        else:
            self.tensor[:, self.place] = (flat * self.scale).to(self.tensor.dtype)


Part = tuple[Tensor, Tensor, Tensor, Follower | None]  # value, first and second moment, copy
