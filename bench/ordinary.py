"""The update as anybody would first write it: nn.Module, autograd, torch.optim. The bench's point of reference."""

import copy

import torch
from torch import nn

from sacd.types import Batch, Spec


def network(spec: Spec) -> nn.Sequential:
    """The same architectures as the package's."""
    if not spec.image:
        sizes = (spec.frame[0], 256, 256)
        return nn.Sequential(
            nn.Linear(*sizes[:2]), nn.ReLU(), nn.Linear(*sizes[1:]), nn.ReLU(), nn.Linear(256, spec.actions)
        )
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, spec.actions),
    )  # fmt: skip


class OrdinarySAC:
    """Algorithm 1, sequential, in float32."""

    def __init__(self, spec: Spec):
        self.image = spec.image
        self.actor, self.q1, self.q2 = network(spec), network(spec), network(spec)
        self.t1, self.t2 = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.critic_adam = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], 3e-4)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), 3e-4)
        self.alpha_adam = torch.optim.Adam([self.log_alpha], 3e-4)
        self.target_entropy = 0.98 * torch.log(torch.tensor(float(spec.actions)))

    def update(self, batch: Batch) -> None:
        """One gradient step."""
        obs, after = (o[0].float() / 255 if self.image else o[0] for o in (batch.obs, batch.next_obs))
        alpha, action = self.log_alpha.exp().detach(), batch.action[0][:, None]
        with torch.no_grad():
            log_pi = self.actor(after).log_softmax(-1)
            value = (log_pi.exp() * (torch.minimum(self.t1(after), self.t2(after)) - alpha * log_pi)).sum(-1)
            target = (batch.reward[0] + batch.discount[0] * value)[:, None]
        errors = [(q(obs).gather(1, action) - target).square().mean() for q in (self.q1, self.q2)]
        self._step(self.critic_adam, errors[0] + errors[1])
        log_pi = self.actor(obs).log_softmax(-1)
        with torch.no_grad():
            q = torch.minimum(self.q1(obs), self.q2(obs))
        self._step(self.actor_adam, (log_pi.exp() * (alpha * log_pi - q)).sum(-1).mean())
        entropy = -(log_pi.exp() * log_pi).sum(-1).mean().detach()
        self._step(self.alpha_adam, self.log_alpha.exp() * (entropy - self.target_entropy))

    @staticmethod
    def _step(adam: torch.optim.Optimizer, loss: torch.Tensor) -> None:
        adam.zero_grad()
        loss.backward()
        adam.step()
