"""The three objectives of the paper, as pure functions of the networks' outputs.

Shapes may have any leading dimensions; `(…, A)` is over actions. Expectations over actions are exact sums (the paper's
changes iii-v). The means over a batch are taken by the caller, so that runs stay apart.

    soft_value      V(s) = pi(s)^T [Q(s) - alpha log pi(s)]                    eq. 10
    soft_target     r + gamma V(s')                                             eq. 3, inside eq. 4
    td_loss         (Q(s, a) - target)^2                                        eq. 4 (the table's mean squared error)
    policy_loss     pi(s)^T [alpha log pi(s) - Q(s)] = -V(s)                    eq. 12
    temperature     pi(s)^T [-alpha (log pi(s) + H)] = alpha (H(pi) - H)        eq. 11

The two losses that networks learn from return their slope in the network's output too: the closed forms are short, and
ten times faster than recording a graph over a few hundred numbers.
"""

import torch
from torch import Tensor

_MASKED = -1e20  # finite, so that it may meet a zero probability, and any temperature


def log_policy(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """log pi (…, A), safe for any finite logits. Where `mask` is False an action is not allowed: log p = -1e20."""
    if mask is None:
        return torch.log_softmax(logits, -1)
    return torch.log_softmax(logits.masked_fill(~mask, _MASKED), -1).masked_fill(~mask, _MASKED)


def entropy(log_pi: Tensor) -> Tensor:
    """H(pi) = -pi^T log pi, in nats: (…)."""
    return -(log_pi.exp() * log_pi).sum(-1)


def soft_value(log_pi: Tensor, q: Tensor, alpha: Tensor) -> Tensor:
    """Eq. 10: the exact soft value (…). alpha broadcasts against (…, A)."""
    return (log_pi.exp() * (q - alpha * log_pi)).sum(-1)


def sampled_soft_value(log_pi: Tensor, q: Tensor, alpha: Tensor, action: Tensor) -> Tensor:
    """Eq. 2 at one sampled action (…): what the author's code uses for V(s')."""
    at = action.unsqueeze(-1)
    return (q.gather(-1, at) - alpha * log_pi.gather(-1, at)).squeeze(-1)


def soft_target(reward: Tensor, discount: Tensor, value: Tensor) -> Tensor:
    """The right side of eq. 4: r + gamma V(s'), where `discount` is already 0 after a terminal state."""
    return reward + discount * value


def td_loss(q: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 4 without its 1/2 (moot under Adam): squared error of the taken action's Q (…), and its slope in Q (…, A)."""
    at = action.unsqueeze(-1)
    error = q.gather(-1, at) - target.unsqueeze(-1)
    return error.square().squeeze(-1), torch.zeros_like(q).scatter_(-1, at, 2 * error)


def policy_loss(log_pi: Tensor, q: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 12 (…), and its slope in the logits (…, A), with `q` and `alpha` constant.

    With f = alpha log pi - Q, the slope is pi (f - pi^T f): the derivative of f itself sums to nothing over actions.
    """
    pi = log_pi.exp()
    f = alpha * log_pi - q
    value = (pi * f).sum(-1, keepdim=True)
    return value.squeeze(-1), pi * (f - value)


def temperature_loss(factor: Tensor, entropy: Tensor, target: Tensor | float) -> Tensor:
    """Eq. 11: factor * (H(pi) - target). `factor` is alpha (the text) or log alpha (the author's code)."""
    return factor * (entropy - target)
