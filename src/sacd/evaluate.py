"""Scores of a trained policy: full episodes, raw rewards, each episode from a seed and noise of its own.

Episode i of a run is the same whoever plays it: lane l plays episodes l, l + L, …, so short games are not favoured.
An episode that does not end is cut at the time limit. `greedy` takes the most probable action but for a share of
uniform ones; `sampled` draws from the policy.
"""

from collections.abc import Callable

import numpy as np
import torch

from sacd import heads, rng
from sacd.agents.sac import SAC, State
from sacd.config import Config, changed
from sacd.envs.pool import make_lanes
from sacd.replay import Replay
from sacd.signals import Stop

POLICIES = ("greedy", "sampled")


def play(
    agent: SAC,
    state: State,
    config: Config,
    run: int,
    policy: str,
    episodes: int,
    tell: Callable[[int], None] = lambda n: None,
    stop: Stop | None = None,
) -> list[float]:
    """Scores of `episodes` episodes of one run of the state, in order; `tell` hears how many are done."""
    count = min(config.eval_lanes, episodes)
    lanes = make_lanes(changed(config, life_loss="ignore", async_envs=False), count)
    tape = Replay(lanes.spec, 1, count, slots=8)  # for its stacks only
    one, device = single(agent, state, run), state.log_alpha.device

    def seed(episode: int) -> int:
        return rng.derived_seed(config.seed, f"evaluate/{policy}", episode)

    def noise(episode: int) -> rng.Stream:
        return rng.Stream(torch.tensor([config.seed]), f"evaluate/{policy}/{episode}", 2)

    playing = list(range(count))  # each lane's episode
    streams = [noise(i) for i in playing]
    length, score, found = np.zeros(count, np.int64), np.zeros(count), np.full(episodes, np.nan)
    tape.start(lanes.reset({i: seed(i) for i in range(count)}, first=True))
    while np.isnan(found).any():
        if stop is not None:
            stop.check("in the evaluation")
        u = torch.cat([s.at(int(t)) for s, t in zip(streams, length, strict=True)])[None]  # (1, lanes, 2)
        action = (
            choose(agent, one, tape.observe().to(device), u.to(device), policy, config.eval_epsilon)[0].cpu().numpy()
        )
        lanes.send(action)
        step = lanes.recv({i: seed(playing[i] + count) for i in range(count)})
        tape.add(action, step)
        score += step.reward
        length += 1
        endless = (length >= config.time_limit) & ~step.ended
        for i in np.flatnonzero(endless):
            tape.cut(int(i), lanes.reset({int(i): seed(playing[i] + count)})[i])
        for i in np.flatnonzero(step.ended | endless):
            if playing[i] < episodes:
                found[playing[i]] = score[i]
                tell(int((~np.isnan(found)).sum()))
            playing[i] += count
            streams[i], length[i], score[i] = noise(playing[i]), 0, 0.0
    lanes.close()
    return found.tolist()


def choose(agent: SAC, state: State, obs: torch.Tensor, u: torch.Tensor, policy: str, epsilon: float) -> torch.Tensor:
    """Actions (1, lanes) from noise u (1, lanes, 2)."""
    logits = agent.logits(state, obs)
    if policy == "sampled":
        return heads.sample(logits, u[..., 0])
    random = heads.uniform(u[..., 1], agent.spec.actions)
    return torch.where(u[..., 0] < epsilon, random, heads.greedy(logits))


def single(agent: SAC, state: State, run: int) -> State:
    """One run of a fleet's state, to act with."""
    actor = agent.net.weights({k: t[run : run + 1] for k, t in state.actor.tensors.items()})
    return State(actor, state.critics, state.targets, state.log_alpha, {})


def summary(scores: list[float]) -> dict[str, float | int | None]:
    """Mean, sample standard deviation and range of a list of scores."""
    values = np.array(scores)
    return {
        "episodes": len(scores),
        "mean": float(values.mean()),
        "std": float(values.std(ddof=1)) if len(scores) > 1 else None,
        "min": float(values.min()),
        "max": float(values.max()),
    }
