"""The few types that travel between modules, and the shape alphabet.

R runs of a fleet, E environments (lanes) a run, B transitions a batch, A actions, S stacked frames, K copies of a net
(the twin critics are K = 2 of one architecture).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # environments and their worker processes do not need torch
    import torch
    from torch import Tensor

    from sacd.kernels.frames import Stacks

NOT_ENDED, TERMINATED, TRUNCATED = 0, 1, 2  # how a transition ends its return, as stored


@dataclass(frozen=True)
class Spec:
    """What a run's environment shows and takes."""

    frame: tuple[int, ...]  # one frame: (D,) for vectors, (H, W) or (H, W, C) for images
    image: bool
    stack: int  # S: frames in an observation
    actions: int  # A
    action_start: int = 0  # the environment's first action

    @property
    def obs(self) -> tuple[int, ...]:
        """An observation: (S, H, W[, C]) for images, (D,) for vectors."""
        return (self.stack, *self.frame) if self.image else self.frame


@dataclass
class Step:
    """What the lanes of a fleet answered to one action each; arrays over R*E lanes.

    `ended` is the end of the episode, after which `frame` is the next episode's first. `closes` is the end of the
    return that is learned: the same, except that a lost life may close a return while play goes on.
    """

    frame: NDArray  # the newest frame, to act on next
    final: NDArray  # the frame the step led to; differs from `frame` only where `ended`
    reward: NDArray[np.float64]  # raw
    closes: NDArray[np.uint8]  # NOT_ENDED, TERMINATED or TRUNCATED
    ended: NDArray[np.bool_]


@dataclass
class Batch:
    """Transitions with all questions of time settled: no loss knows n, gamma or how an episode ended."""

    obs: Tensor | Stacks  # (R, B, *obs)
    action: Tensor  # (R, B) int64
    reward: Tensor  # (R, B) sum of n discounted rewards
    discount: Tensor  # (R, B) gamma^n, or 0 after a terminal state
    next_obs: Tensor | Stacks  # (R, B, *obs)

    def to(self, device: torch.device) -> Batch:
        """The same on a device; this very one where it is there."""
        if self.action.device == device:
            return self
        return Batch(*(t.to(device) for t in vars(self).values()))


@dataclass
class Out:
    """What an update leaves for the log: tensors on the device, reduced only when a row is due."""

    alpha: Tensor  # (R,)
    entropy: Tensor  # (R,)
    critic_loss: Tensor  # (R, 2, B)
    actor_loss: Tensor  # (R, B)
    q: Tensor  # (R, 2, B, A)
    actions: Tensor  # (R,): how many of A a run has; the others' q is 0

    def metrics(self) -> dict[str, Tensor]:
        """By name, (R,) each."""
        return {
            "critic_loss": self.critic_loss.mean((1, 2)),
            "actor_loss": self.actor_loss.mean(1),
            "alpha": self.alpha,
            "entropy": self.entropy,
            "q": self.q.mean((1, 2)).sum(-1) / self.actions,
            "q_gap": (self.q[:, 0] - self.q[:, 1]).abs().mean(1).sum(-1) / self.actions,
        }


@dataclass(frozen=True)
class Episode:
    """A finished episode of one lane: raw return and length in agent steps."""

    lane: int
    score: float
    length: int
