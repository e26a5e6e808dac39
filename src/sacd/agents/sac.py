"""SAC-Discrete (Christodoulou 2019, Algorithm 1) for R runs at once.

Implements: twin critics and their targets, exact expectations over actions (eq. 10-12), a learned temperature, hard or
Polyak targets, and the options of the author's code (docs/protocol.md). Different from the text on purpose: log alpha
is the temperature's parameter, so that alpha stays positive; J_Q has no 1/2, which Adam does not notice.

An update reads like Algorithm 1: critics, actor, temperature. Targets move on the clock's word (`move_targets`):
their period is counted in agent steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sacd import heads, losses, nets, schedules
from sacd.batched import batched
from sacd.config import Config
from sacd.init import first_weights
from sacd.kernels.frames import Stacks
from sacd.nets import AnyNet, AnyWeights
from sacd.optim import Adam
from sacd.types import Batch, Out, Spec

CPU = torch.device("cpu")


@dataclass
class State:
    """All that learning changes. Every tensor begins with the dimension R."""

    actor: AnyWeights  # K = 1
    critics: AnyWeights  # K = 2
    targets: AnyWeights  # K = 2
    log_alpha: Tensor  # (R,)
    adams: dict[str, Adam]  # actor, critics, alpha
    actions: tuple[int, ...]  # each run's number of actions; a fleet's last layer has the most of them
    updates: int = 0

    def tensors(self) -> dict[str, Tensor]:
        """By name, all runs together."""
        named = {"log_alpha": self.log_alpha}
        for part in ("actor", "critics", "targets"):
            named |= {f"{part}.{k}": t for k, t in getattr(self, part).tensors.items()}
        for part, adam in self.adams.items():
            named |= {f"adam.{part}.first.{k}": t for k, t in adam.first.items()}
            named |= {f"adam.{part}.second.{k}": t for k, t in adam.second.items()}
        return named

    def share(self, run: int) -> dict[str, Tensor]:
        """One run's part of `tensors`, as views: what it would have alone, with its own number of actions."""
        last = (f".{len(self.actor.layers) - 1}.weight", f".{len(self.actor.layers) - 1}.bias")
        count = self.actions[run]
        return {k: t[run][:, :count] if k.endswith(last) else t[run] for k, t in self.tensors().items()}

    def restored(self, updates: int) -> None:
        """After `tensors` were overwritten: bring what is derived from them up to date."""
        self.updates = updates
        for weights in (self.actor, self.critics, self.targets):
            weights.refresh()
        for adam in self.adams.values():
            adam.set_count(updates)


class SAC:
    """The agent: pure in (state, batch, noise), for any number of runs.

    `actions` are the runs' numbers of actions where they differ: nets are then as wide as the widest, and what a run
    does not have is masked. Its weights are zero and stay so.
    """

    def __init__(self, spec: Spec, config: Config, device: torch.device = CPU, actions: Sequence[int] = ()):
        self.spec, self.config, self.actions = spec, config, tuple(actions)
        net = nets.build(spec, config)
        self.net: AnyNet = net if device.type == "cpu" else batched(net, spec.frame)
        self.step = self.gradient_step  # a GPU's engine puts a recorded one here
        counts = torch.tensor(self.actions or [spec.actions], device=device)  # (R,) or (1,)
        self.counts = counts.view(-1, 1)
        self.max_entropy = counts.double().log()
        exist = (torch.arange(spec.actions, device=device) < self.counts)[:, None]  # (R, 1, A)
        self.allowed = exist if len(set(self.actions)) > 1 else None

    def init(self, seeds: Tensor) -> State:
        """First state of the runs with these seeds (R,)."""
        config, net = self.config, self.net
        actor = net.weights(self._first_weights(seeds, ["critic0" if config.tie_init else "actor"]))
        critics = net.weights(self._first_weights(seeds, ["critic0", "critic1"]))
        targets = net.weights({k: t.clone() for k, t in critics.tensors.items()})
        log_alpha = torch.full(seeds.shape, math.log(config.alpha_init), device=seeds.device)
        adams = {
            "actor": Adam(actor.tensors, actor.split, config.adam_eps, actor.followers()),
            "critics": Adam(critics.tensors, critics.split, config.adam_eps, critics.followers()),
            "alpha": Adam({"log_alpha": log_alpha}, self._alphas, config.adam_eps),
        }
        return State(actor, critics, targets, log_alpha, adams, self.actions or (self.spec.actions,) * len(seeds))

    def _first_weights(self, seeds: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        """What each run would begin with alone; rows of actions that it does not have are zero."""
        if self.allowed is None:
            return first_weights(self.net.layers, seeds, names, self.config.init)
        *inner, last = self.net.layers
        found = []
        for seed, count in zip(seeds.split(1), self.actions, strict=True):
            mine = first_weights((*inner, replace(last, outputs=count)), seed, names, self.config.init)
            for k in list(mine)[-2:]:
                mine[k] = F.pad(mine[k], [0, 0] * (mine[k].ndim - 3) + [0, self.spec.actions - count])
            found.append(mine)
        return {k: torch.cat([mine[k] for mine in found]) for k in found[0]}

    @staticmethod
    def _alphas(tensors: dict[str, Tensor]) -> list[Tensor]:
        """Each run's own on a CPU, whose bits depend on the place in a vector; on a GPU all at once."""
        log_alpha = tensors["log_alpha"]
        return list(log_alpha.split(1)) if log_alpha.device.type == "cpu" else [log_alpha]

    @torch.inference_mode()
    def logits(self, state: State, obs: Tensor | Stacks) -> Tensor:
        """The policy's logits (R, E, A) for observations (R, E, *obs)."""
        return self.net(state.actor, self.net.prepare(obs))[:, 0]

    def act(self, state: State, obs: Tensor | Stacks, u: Tensor) -> Tensor:
        """Actions (R, E) drawn from the policy with uniforms u (R, E)."""
        return heads.sample(self.logits(state, obs), u, self.allowed)

    def explore(self, u: Tensor) -> Tensor:
        """Uniformly random actions (R, E) from uniforms u (R, E)."""
        return heads.uniform(u, self.counts)

    def update(self, state: State, batch: Batch, u: Tensor | None, fraction: float) -> Out:
        """One gradient step of every run. `fraction` of the run is done; `u` (R, B) is noise for a sampled target."""
        out = self.step(state, batch, u, self.aim(fraction).expand_as(state.log_alpha))
        state.updates += 1
        return out

    @torch.inference_mode()
    def gradient_step(self, state: State, batch: Batch, u: Tensor | None, aim: Tensor) -> Out:
        """Algorithm 1's gradient step, on tensors alone. `aim` (R,): the wanted entropy, or the fixed temperature."""
        c, net, size = self.config, self.net, batch.action.shape[1]
        alpha = (aim if c.alpha else state.log_alpha.exp())[:, None, None]  # (R, 1, 1)
        obs = net.prepare(batch.obs)

        target = self._target(state, batch, alpha, u)  # (R, B)
        q, pull_q = net.vjp(state.critics, obs)  # (R, 2, B, A)
        critic_loss, slope = losses.td_loss(q, batch.action[:, None].expand(q.shape[:-1]), target[:, None])
        critic_gradients = pull_q(slope / size)
        if c.update_order == "sequential":  # the actor sees the critics after their step
            self._step_critics(state, critic_gradients)
        q_actor = net(state.critics, obs) if c.update_order == "sequential" else q

        logits, pull_pi = net.vjp(state.actor, obs)  # (R, 1, B, A)
        log_pi = losses.log_policy(logits[:, 0], self.allowed)
        actor_loss, slope = losses.policy_loss(log_pi, self._of_twins(q_actor), alpha)
        slope = slope / (size * self.counts[:, :, None] if c.actor_reduce == "mean" else size)
        state.adams["actor"].step(pull_pi(slope[:, None]), c.learning_rate)
        state.actor.repack()
        if c.update_order == "simultaneous":
            self._step_critics(state, critic_gradients)

        entropy = losses.entropy(log_pi).mean(-1)  # (R,)
        if not c.alpha:
            self._step_alpha(state, entropy, aim)
        return Out(alpha[:, 0, 0], entropy, critic_loss, actor_loss, q, self.counts[:, 0].expand_as(entropy))

    def move_targets(self, state: State) -> None:
        """Targets towards the critics, by tau."""
        state.targets.move_towards(state.critics, self.config.tau)

    def aim(self, fraction: float) -> Tensor:
        """The scheduled number when `fraction` of the run is done: the wanted entropy in nats, or the fixed alpha.

        (R,) or (1,). With one action there is no entropy to want, so its alpha never moves.
        """
        c = self.config
        if c.alpha:
            return torch.full_like(self.max_entropy, schedules.value(c.alpha, fraction)).float()
        if c.target_entropy:
            wanted = torch.full_like(self.max_entropy, schedules.value(c.target_entropy, fraction))
            return wanted.where(self.max_entropy > 0, 0.0).float()
        return (schedules.value(c.target_entropy_ratio, fraction) * self.max_entropy).float()

    def _target(self, state: State, batch: Batch, alpha: Tensor, u: Tensor | None) -> Tensor:
        """The right side of eq. 4 with the smaller of the target critics: (R, B)."""
        obs = self.net.prepare(batch.next_obs)
        logits = self.net(state.actor, obs)[:, 0]
        log_pi, q = losses.log_policy(logits, self.allowed), self._of_twins(self.net(state.targets, obs))
        if self.config.target_value == "sampled":
            assert u is not None
            value = losses.sampled_soft_value(log_pi, q, alpha, heads.sample(logits, u, self.allowed))
        else:
            value = losses.soft_value(log_pi, q, alpha)
        return losses.soft_target(batch.reward, batch.discount, value)

    def _of_twins(self, q: Tensor) -> Tensor:
        """One estimate (R, B, A) from two (R, 2, B, A)."""
        return q.amin(1) if self.config.twins == "min" else q.mean(1)

    def _step_critics(self, state: State, gradients: list[Any]) -> None:
        state.adams["critics"].step(gradients, self.config.learning_rate)
        state.critics.repack()

    def _step_alpha(self, state: State, entropy: Tensor, wanted: Tensor) -> None:
        """Eq. 11 by its parameter log alpha: d alpha / d log alpha = alpha."""
        c = self.config
        gap = losses.temperature_loss(torch.ones_like(entropy), entropy, wanted)  # linear in its factor
        slope = gap * state.log_alpha.exp() if c.temperature_loss == "alpha" else gap
        state.adams["alpha"].step(self._alphas({"log_alpha": slope}), c.learning_rate)
        if c.alpha_min or c.alpha_max:
            low = math.log(c.alpha_min) if c.alpha_min else -math.inf
            high = math.log(c.alpha_max) if c.alpha_max else math.inf
            state.log_alpha.clamp_(low, high)
