"""Scores of policies: full episodes, raw rewards, each episode from a seed and noise of its own.

Episode i of a player is the same in whichever lane it is played (on a GPU but for rounding), so a lane that is free
takes the next one and short games are not favoured; where there is none left, the lane stands still. An episode that
does not end is cut at the time limit. `greedy` takes the most probable action but for a share of uniform ones,
`sampled` draws from the policy, `random` knows none. Players of one environment play side by side, by one batched
policy.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from sacd import heads, rng
from sacd.agents.sac import SAC, State
from sacd.config import Config, changed
from sacd.envs.atari import noops
from sacd.envs.names import is_atari
from sacd.envs.pool import make_lanes, side_by_side
from sacd.kernels.frames import Stacks
from sacd.replay import Replay
from sacd.signals import Stop
from sacd.types import Step

if TYPE_CHECKING:
    from sacd.envs.apart import Apart
    from sacd.envs.together import Together

POLICIES = ("greedy", "sampled")
RANDOM = "random"


@dataclass(frozen=True)
class Player:
    """One of a fleet's runs, and how its policy is used."""

    config: Config
    run: int  # of the state
    policy: str

    @property
    def stream(self) -> str:
        """Its seeds' and noise's name."""
        return f"evaluate/{self.policy}"


Act = Callable[[torch.Tensor | Stacks, torch.Tensor], torch.Tensor]  # (P, lanes, *obs), noise (P, lanes, 2): actions


def play(
    players: Sequence[Player],
    act: Act,
    device: torch.device,
    tell: Callable[[int], None] = lambda n: None,
    stop: Stop | None = None,
) -> list[list[float]]:
    """Scores of each player's episodes, in order. They play one environment; `tell` hears how many are done."""
    each = lanes_each(players[0].config)
    with closing(arena(players, each)) as lanes:
        games = Games(players, lanes, each, device)
        while not games.over:
            tell(games.done)
            if stop is not None:
                stop.check("in the evaluation")
            games.turn(act)
        tell(games.done)
    return games.found.tolist()


def lanes_each(config: Config) -> int:
    """Lanes of a player."""
    return min(config.eval_lanes, config.eval_episodes)


def play_runs(
    agent: SAC,
    state: State,
    players: Sequence[Player],
    tell: Callable[[int], None] = lambda n: None,
    stop: Stop | None = None,
) -> list[list[float]]:
    """Scores of a fleet's runs."""
    return play(players, choose(agent, state, players), state.log_alpha.device, tell, stop)


def arena(players: Sequence[Player], each: int) -> "Together | Apart":
    """Environments, `each` for every player and one in each part. A lost life means nothing here."""
    played = [changed(p.config, life_loss="ignore", noop_max=p.config.eval_noop_max, async_envs=False) for p in players]
    return side_by_side([(config, 1) for config in played for _ in range(each)])


def choose(agent: SAC, state: State, players: Sequence[Player]) -> Act:
    """The players' policies: their runs' networks, each used in its way."""
    mine = subset(agent, state, [p.run for p in players])
    greedy = torch.tensor([p.policy == "greedy" for p in players], device=state.log_alpha.device)[:, None]
    share = greedy * players[0].config.eval_epsilon  # of uniform actions

    def act(obs: torch.Tensor | Stacks, u: torch.Tensor) -> torch.Tensor:
        logits = agent.logits(mine, obs)[..., : mine.actions[0]]
        wanted = torch.where(greedy, heads.greedy(logits), heads.sample(logits, u[..., 0]))
        return torch.where(u[..., 0] < share, heads.uniform(u[..., 1], mine.actions[0]), wanted)

    return act


def play_randomly(players: Sequence[Player], tell: Callable[[int], None], stop: Stop) -> list[list[float]]:
    """Scores of uniformly random actions in the same games."""
    lanes = make_lanes(players[0].config, 1)
    lanes.close()
    return play(players, lambda obs, u: heads.uniform(u[..., 1], lanes.spec.actions), torch.device("cpu"), tell, stop)


def subset(agent: SAC, state: State, runs: Sequence[int]) -> State:
    """Some runs of a fleet's state, to act with."""
    actor = agent.net.weights({k: t[list(runs)] for k, t in state.actor.tensors.items()})
    return State(actor, state.critics, state.targets, state.log_alpha, {}, tuple(state.actions[r] for r in runs))


class Games:
    """Every player's episodes under way, and what came of them."""

    def __init__(self, players: Sequence[Player], lanes: "Together | Apart", each: int, device: torch.device):
        self.players, self.lanes, self.each, self.device = players, lanes, each, device
        self.config, count = players[0].config, len(players) * each
        self.found = np.full((len(players), self.config.eval_episodes), np.nan)
        self.playing = [i % each for i in range(count)]  # each lane's episode
        self.waiting = [list(range(each, self.config.eval_episodes)) for _ in players]
        self.noise = [self._noise(i) for i in range(count)]
        self.length, self.score, self.plays = np.zeros(count, np.int64), np.zeros(count), np.ones(count, bool)
        slots = 2 * lanes.spec.stack + 2
        self.tape = Replay(lanes.spec, len(players), each, slots, device=device)  # for its stacks only
        self.tape.start(lanes.reset({i: self._seed(i, self.playing[i]) for i in range(count)}, first=True))

    @property
    def done(self) -> int:
        """Episodes so far."""
        return int((~np.isnan(self.found)).sum())

    @property
    def over(self) -> bool:
        return self.done == self.found.size

    def turn(self, act: Act) -> None:
        """One step in every lane."""
        u = torch.cat([s.at(int(t)) for s, t in zip(self.noise, self.length, strict=True)])
        u = u.view(len(self.players), self.each, 2).to(self.device)
        action = act(self.tape.observe(), u).cpu().numpy().ravel()
        after = [self._next(i) for i in range(len(self.playing))]
        self.lanes.send(action, {i: self._seed(i, e) for i, e in enumerate(after) if e is not None})
        step = self.lanes.recv()
        self.tape.add(action, step)
        self.score += step.reward
        self.length += self.plays
        ended = self._cut_endless(step, after)
        for i in np.flatnonzero(ended).tolist():
            self._finish(i, after[i])

    def _next(self, lane: int) -> int | None:
        """The episode that begins here if this one ends now. Two lanes may get the same: it is the same in both."""
        player, place = divmod(lane, self.each)
        waiting = self.waiting[player]
        return waiting[place % len(waiting)] if waiting else None

    def _cut_endless(self, step: Step, after: list[int | None]) -> np.ndarray:
        """Stop what has reached the time limit; the lanes whose episodes are over (L,)."""
        endless = self.plays & (self.length >= self.config.time_limit) & ~step.ended
        for i in np.flatnonzero(endless).tolist():
            if (episode := after[i]) is not None:
                self.tape.cut(i, self.lanes.reset({i: self._seed(i, episode)})[i])
        return step.ended | endless

    def _finish(self, lane: int, after: int | None) -> None:
        player = lane // self.each
        self.found[player, self.playing[lane]] = self.score[lane]
        if after is None:
            self.plays[lane] = False
            self.lanes.park([lane])
            return
        if after in self.waiting[player]:
            self.waiting[player].remove(after)
        self.playing[lane], self.length[lane], self.score[lane] = after, 0, 0.0
        self.noise[lane] = self._noise(lane)

    def _seed(self, lane: int, episode: int) -> int:
        player = self.players[lane // self.each]
        return seed(player.config, player.stream, episode)

    def _noise(self, lane: int) -> rng.Stream:
        player = self.players[lane // self.each]
        return rng.Stream(torch.tensor([player.config.seed]), f"{player.stream}/{self.playing[lane]}", 2)


@lru_cache(100_000)
def seed(config: Config, stream: str, episode: int) -> int:
    """The emulator's seed of an episode: the first with as many no-ops at its start as are wanted."""
    tried = 0
    while True:
        found = rng.derived_seed(config.seed, f"{stream}/start/{episode}", tried)
        if not is_atari(config.env) or noops(found, config.eval_noop_max) >= config.eval_noop_min:
            return found
        tried += 1


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
