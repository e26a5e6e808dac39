"""Scores of trained policies: full episodes, raw rewards, each episode from a seed and noise of its own.

Episode i of a run is the same whoever plays it: lane l plays episodes l, l + L, …, so short games are not favoured.
An episode that does not end is cut at the time limit. `greedy` takes the most probable action but for a share of
uniform ones; `sampled` draws from the policy. Runs of one fleet are played together, by one batched policy.
"""

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np
import torch

from sacd import heads, rng
from sacd.agents.sac import SAC, State
from sacd.config import Config, changed
from sacd.envs.pool import lanes_of
from sacd.kernels.frames import Stacks
from sacd.replay import Replay
from sacd.signals import Stop

POLICIES = ("greedy", "sampled")


def play(
    agent: SAC,
    state: State,
    configs: Sequence[Config],
    runs: Sequence[int],
    policy: str,
    tell: Callable[[int], None] = lambda n: None,
    stop: Stop | None = None,
) -> list[list[float]]:
    """Scores of each run's episodes, in order: of these runs of the state, played as their `configs` say.

    `tell` hears how many episodes are done. The environment is one for all.
    """
    episodes, config = configs[0].eval_episodes, configs[0]
    each = min(config.eval_lanes, episodes)
    count = len(runs) * each  # lanes, run by run
    seeds = [c.seed for c in configs for _ in range(each)]  # of a lane's run
    played = {"life_loss": "ignore", "noop_max": config.eval_noop_max, "async_envs": False}
    lanes, _ = lanes_of([changed(c, **played) for c in configs], each)
    with closing(lanes):
        device = state.log_alpha.device
        tape = Replay(lanes.spec, len(runs), each, slots=2 * lanes.spec.stack + 2, device=device)  # for its stacks only
        mine = subset(agent, state, runs)

        def seed(lane: int, episode: int) -> int:
            return rng.derived_seed(seeds[lane], f"evaluate/{policy}", episode)

        def noise(lane: int, episode: int) -> rng.Stream:
            return rng.Stream(torch.tensor([seeds[lane]]), f"evaluate/{policy}/{episode}", 2)

        playing = [i % each for i in range(count)]  # each lane's episode
        streams = [noise(i, e) for i, e in enumerate(playing)]
        length, score, found = np.zeros(count, np.int64), np.zeros(count), np.full((len(runs), episodes), np.nan)
        tape.start(lanes.reset({i: seed(i, e) for i, e in enumerate(playing)}, first=True))
        while np.isnan(found).any():
            tell(int((~np.isnan(found)).sum()))
            if stop is not None:
                stop.check("in the evaluation")
            u = torch.cat([s.at(int(t)) for s, t in zip(streams, length, strict=True)]).view(len(runs), each, 2)
            action = (
                choose(agent, mine, tape.observe(), u.to(device), policy, config.eval_epsilon).cpu().numpy().ravel()
            )
            lanes.send(action, {i: seed(i, playing[i] + each) for i in range(count)})
            step = lanes.recv()
            tape.add(action, step)
            score += step.reward
            length += 1
            endless = (length >= config.time_limit) & ~step.ended
            for i in np.flatnonzero(endless).tolist():
                tape.cut(i, lanes.reset({i: seed(i, playing[i] + each)})[i])
            for i in np.flatnonzero(step.ended | endless).tolist():
                if playing[i] < episodes:
                    found[i // each, playing[i]] = score[i]
                playing[i] += each
                streams[i], length[i], score[i] = noise(i, playing[i]), 0, 0.0
        tell(found.size)
    return found.tolist()


def choose(
    agent: SAC, state: State, obs: torch.Tensor | Stacks, u: torch.Tensor, policy: str, epsilon: float
) -> torch.Tensor:
    """Actions (R, lanes) from noise u (R, lanes, 2)."""
    actions = state.actions[0]
    logits = agent.logits(state, obs)[..., :actions]
    if policy == "sampled":
        return heads.sample(logits, u[..., 0])
    random = heads.uniform(u[..., 1], actions)
    return torch.where(u[..., 0] < epsilon, random, heads.greedy(logits))


def subset(agent: SAC, state: State, runs: Sequence[int]) -> State:
    """Some runs of a fleet's state, to act with."""
    actor = agent.net.weights({k: t[list(runs)] for k, t in state.actor.tensors.items()})
    return State(actor, state.critics, state.targets, state.log_alpha, {}, tuple(state.actions[r] for r in runs))


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
