"""From logits to actions: one draw by inverse transform, or the mode. Nothing here knows how the logits were made."""

import torch
from torch import Tensor

from sacd.losses import log_policy


def sample(logits: Tensor, u: Tensor, mask: Tensor | None = None) -> Tensor:
    """One action (…) from logits (…, A) and uniforms u (…) in [0, 1). An action of probability zero is never drawn."""
    cumulated = log_policy(logits, mask).double().exp().cumsum(-1)
    reached = cumulated <= u.unsqueeze(-1) * cumulated[..., -1:]
    return reached.sum(-1)


def greedy(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """The most probable action (…); the first of equals."""
    return log_policy(logits, mask).argmax(-1)


def uniform(u: Tensor, actions: int | Tensor) -> Tensor:
    """A uniformly random action (…) from uniforms u (…) in [0, 1)."""
    return (u * actions).to(torch.int64)
