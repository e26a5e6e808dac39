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
    """A packed copy (N, P) of N nets' masters; gradients of masters that have one come in its order.

    With `place` (D,) it is turned: the master is (N, O, D), the copy scale * (N, D, O), and the master's column d is
    the copy's row place[d]. Without, it is the master in another precision.
    """

    tensor: Tensor
    place: Tensor | None = None  # int32
    scale: float = 1.0

    def pull(self, gradient: Tensor) -> Tensor:
        """The master's gradient (N, P) from the copy's."""
        if self.place is None:
            return gradient.reshape(self.tensor.shape)
        turned = gradient.reshape(len(self.tensor), len(self.place), -1)[:, self.place].mT
        return (turned * self.scale).reshape(self.tensor.shape)

    def write(self, value: Tensor) -> None:
        """Follow the master."""
        if self.place is None:
            self.tensor.copy_(value.reshape(self.tensor.shape))
            return
        rows = self.tensor.view(len(self.tensor), len(self.place), -1)
        turned = value.reshape(len(rows), -1, len(self.place)).mT * self.scale
        rows[:, self.place] = turned.to(rows.dtype)


Part = tuple[Tensor, Tensor, Tensor, Follower | None]  # value, first and second moment, copy
