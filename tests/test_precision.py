"""bfloat16 against float64 over 200 updates: how far the functions that were learned lie apart.

The batches are recorded from the pixel toy. On a GPU the bfloat16 side is what fleets train with (batched products,
Triton's kernels, the recorded step); elsewhere the same batched net by its PyTorch references.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sacd import config, nets
from sacd.agents.sac import SAC, State
from sacd.batched import batched
from sacd.envs.pool import Pool
from sacd.graph import Recorded
from sacd.losses import log_policy
from sacd.optim import Adam
from sacd.replay import Replay
from sacd.types import Batch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RUNS, SIZE, UPDATES, HELD = 2, 16, 200, 64
FIELDS = {"stack": 2, "batch_size": SIZE, "learning_rate": 1e-4, "target_entropy_ratio": "0.7"}


def recorded() -> tuple[config.Config, Replay]:
    """Random play of two runs on a tape."""
    chosen = config.make("sacd/Catch-v0", "paper", **FIELDS)
    pool = Pool([config.changed(chosen, seed=s) for s in range(RUNS)], 1)
    tape = Replay(pool.spec, RUNS, 1, 800, gamma=0.9)
    tape.start(pool.start())
    g = torch.Generator().manual_seed(0)
    for _ in range(600):
        action = torch.randint(pool.spec.actions, (RUNS,), generator=g).numpy()
        pool.send(action)
        tape.add(action, pool.recv()[0])
    pool.close()
    return chosen, tape


class Exact(Adam):
    """Of gradients that the layers leave in float32."""

    def step(self, gradients: Sequence[Tensor], rate: float) -> None:
        super().step([g.double() for g in gradients], rate)


def exact(agent: SAC, state: State) -> None:
    """An agent and its state in float64."""
    layers = tuple(replace(layer, dtype=torch.float64) for layer in agent.net.layers)
    agent.net = nets.Net(layers, True)
    for part in ("actor", "critics", "targets"):
        weights = agent.net.weights({k: t.double() for k, t in getattr(state, part).tensors.items()})
        setattr(state, part, weights)
        if part != "targets":
            state.adams[part] = Exact(weights.tensors, weights.split, 1e-8)
    state.log_alpha = state.log_alpha.double()
    state.adams["alpha"] = Exact({"log_alpha": state.log_alpha}, agent._alphas, 1e-8)


def learned(precision: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Q and log pi on observations that were not learned from, log alpha, and how far Q has come since the start."""
    chosen, tape = recorded()
    device = torch.device("cpu") if precision == "exact" else DEVICE
    agent = SAC(tape.spec, config.changed(chosen, precision="fp32" if precision == "exact" else "bf16"), device)
    if precision == "exact":
        state = agent.init(torch.arange(RUNS))
        exact(agent, state)
    else:
        agent.net = batched(nets.build(tape.spec, agent.config), tape.spec.frame)
        state = agent.init(torch.arange(RUNS, device=device))
        agent.step = Recorded(agent.gradient_step) if device.type == "cuda" else agent.gradient_step
    g = torch.Generator().manual_seed(1)
    held = tape.sample(torch.rand(RUNS, HELD, generator=g), True)
    before = outputs(agent, state, held)[0]
    for number in range(UPDATES):
        batch = tape.sample(torch.rand(RUNS, SIZE, generator=g), True)
        agent.update(state, to(batch, device, precision), None, 0.0)
        if number % 20 == 19:
            agent.move_targets(state)
    q, log_pi = outputs(agent, state, held)
    return q, log_pi, state.log_alpha.cpu().double(), (q - before).abs().mean()


def to(batch: Batch, device: torch.device, precision: str) -> Batch:
    moved = batch.to(device)
    if precision == "exact":
        moved.reward, moved.discount = moved.reward.double(), moved.discount.double()
    return moved


def outputs(agent: SAC, state: State, held: Batch) -> tuple[Tensor, Tensor]:
    x = agent.net.prepare(held.obs.to(state.log_alpha.device))
    q, logits = agent.net(state.critics, x), agent.net(state.actor, x)[:, 0]
    return q.cpu().double(), log_policy(logits.cpu().double())


@pytest.mark.slow
def test_two_hundred_updates():
    """On observations not learned from, Q differs by under 3 % of how far it came, probabilities by under 0.01."""
    q, log_pi, log_alpha, moved = learned("exact")
    half_q, half_log_pi, half_log_alpha, _ = learned("bf16")
    errors = {
        "q": ((half_q - q).abs().mean() / moved).item(),
        "pi": (half_log_pi.exp() - log_pi.exp()).abs().mean().item(),
        "log alpha": (half_log_alpha - log_alpha).abs().max().item(),
    }
    assert errors["q"] < 0.03 and errors["pi"] < 0.01 and errors["log alpha"] < 5e-5, errors
