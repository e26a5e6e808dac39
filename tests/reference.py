"""An independent agent in float64: plain autograd, torch.optim.Adam and the paper's equations."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from sacd.agents.sac import SAC, State
from sacd.types import Batch


class Reference:
    """One run in float64, from the weights of a state; written from the equations and Algorithm 1 alone."""

    def __init__(self, sac: SAC, state: State):
        self.c, self.actions, self.image = sac.config, sac.spec.actions, sac.spec.image
        self.layers = len(sac.net.layers)

        def weights(part: str, copy: int) -> list[Tensor]:
            tensors = getattr(state, part).tensors.values()
            return [t[0, copy].double().clone().requires_grad_(part != "targets") for t in tensors]

        self.actor = weights("actor", 0)
        self.critics = [weights("critics", 0), weights("critics", 1)]
        self.targets = [weights("targets", 0), weights("targets", 1)]
        self.log_alpha = state.log_alpha[0].double().clone().requires_grad_()
        nets = (self.actor, *self.critics, [self.log_alpha])
        self.adams = [torch.optim.Adam(net, lr=self.c.learning_rate, eps=self.c.adam_eps) for net in nets]

    def net(self, weights: list[Tensor], obs: Tensor) -> Tensor:
        x, strides = obs.double(), (4, 2, 1)
        hidden = {"relu": F.relu, "tanh": torch.tanh}["relu" if self.image else self.c.activation]
        x = x / 255 if self.image else x
        for i in range(self.layers):
            w, b = weights[2 * i], weights[2 * i + 1]
            if w.ndim == 4:
                x = F.conv2d(x, w, b, stride=strides[i])
            else:
                x = F.linear(x.permute(0, 2, 3, 1).flatten(1) if x.ndim == 4 else x, w, b)
            x = hidden(x) if i < self.layers - 1 else x
        return x

    def value(self, form: str, fraction: float) -> float:
        """A schedule of the cases above: a number or linear(a, b)."""
        if not form.startswith("linear"):
            return float(form)
        a, b = (float(x) for x in form[7:-1].split(","))
        return a + (b - a) * fraction

    def step(self, batch: Batch, u: Tensor, fraction: float) -> tuple[float, float, float, float]:
        """Losses, entropy and alpha before the step; then the step."""
        c = self.c
        obs, next_obs, action = batch.obs[0], batch.next_obs[0], batch.action[0]
        rows = torch.arange(len(action))
        alpha = torch.tensor(self.value(c.alpha, fraction)) if c.alpha else self.log_alpha.detach().exp()
        with torch.no_grad():
            p = self.net(self.actor, next_obs).softmax(-1)
            q = torch.minimum(self.net(self.targets[0], next_obs), self.net(self.targets[1], next_obs))
            soft = q - alpha * p.log()
            if c.target_value == "exact":
                v = (p * soft).sum(-1)
            else:  # the first action whose cumulated probability exceeds u
                drawn = (p.cumsum(-1) <= u[0, :, None]).sum(-1)
                v = soft[rows, drawn]
            y = batch.reward[0].double() + batch.discount[0].double() * v
        td = [((self.net(w, obs)[rows, action] - y) ** 2).mean() for w in self.critics]
        if c.update_order == "sequential":
            self.descend(1, td[0])
            self.descend(2, td[1])
        with torch.no_grad():
            q = torch.minimum(self.net(self.critics[0], obs), self.net(self.critics[1], obs))
        p = self.net(self.actor, obs).softmax(-1)
        each = p * (alpha * p.log() - q)
        entropy = -(p * p.log()).sum(-1).mean().detach()
        self.descend(0, each.sum(-1).mean() if c.actor_reduce == "sum" else each.mean())
        if c.update_order == "simultaneous":
            self.descend(1, td[0])
            self.descend(2, td[1])
        if not c.alpha:
            wanted = self.value(c.target_entropy, fraction) if c.target_entropy else (
                self.value(c.target_entropy_ratio, fraction) * math.log(self.actions))  # fmt: skip
            factor = self.log_alpha.exp() if c.temperature_loss == "alpha" else self.log_alpha
            self.descend(3, factor * (entropy - wanted))
            with torch.no_grad():
                self.log_alpha.clamp_(math.log(c.alpha_min or 1e-30), math.log(c.alpha_max or 1e30))
        return float(sum(td).detach() / 2), float(each.sum(-1).mean().detach()), float(entropy), float(alpha)

    def descend(self, which: int, loss: Tensor) -> None:
        self.adams[which].zero_grad()
        loss.backward()
        self.adams[which].step()

    def move_targets(self) -> None:
        with torch.no_grad():
            for old, new in zip(self.targets, self.critics, strict=True):
                for a, b in zip(old, new, strict=True):
                    a.copy_((1 - self.c.tau) * a + self.c.tau * b)

    def tensors(self) -> dict[str, list[Tensor]]:
        return {"actor": [self.actor], "critics": self.critics, "targets": self.targets}
