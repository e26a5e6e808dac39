"""The emulators of a fleet: R runs of E lanes of one environment, with scores, and exact resume by replayed actions.

A lane's state is its last seeded reset and the actions since: emulator snapshots are not exact (docs/design.md), this
is. To keep the record short a lane is reseeded at its first episode end after a checkpoint of the regular cadence,
never after an extra one, so that an interruption changes nothing.
"""

import hashlib
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sacd import rng
from sacd.config import Config
from sacd.envs import names
from sacd.envs.together import Together
from sacd.types import Episode, Spec, Step

if TYPE_CHECKING:
    from sacd.envs.apart import Apart


class Lanes(Protocol):
    """What a family of environments provides."""

    spec: Spec

    def reset(self, seeds: dict[int, int | None], first: bool = False) -> NDArray: ...
    def send(self, actions: NDArray, seeds: dict[int, int]) -> None: ...
    def recv(self) -> Step: ...
    def close(self) -> None: ...


def make_lanes(config: Config, lanes: int, games: int = 1) -> Lanes:
    """Lanes of the configuration's environment, one of several `games` that share the machine's cores.

    A new family of environments is one line here.
    """
    if names.is_atari(config.env):
        from sacd.envs.atari import AtariLanes  # noqa: PLC0415

        return AtariLanes(config, lanes, games)
    from sacd.envs.gym import GymLanes  # noqa: PLC0415

    return GymLanes(config, lanes)


def lanes_of(configs: list[Config], each: int) -> tuple[Lanes, list[int]]:
    """Lanes of several runs, `each` a run, and every run's number of actions. Runs of one game stand side by side."""
    games = [(runs[0], len(runs)) for runs in (list(g) for _, g in groupby(configs, key=lambda c: c.env))]
    if len(games) == 1:
        lanes = make_lanes(configs[0], len(configs) * each)
        return lanes, [lanes.spec.actions] * len(configs)
    fleet = side_by_side([(config, runs * each) for config, runs in games])
    actions = [count for count, (_, runs) in zip(fleet.actions_of, games, strict=True) for _ in range(runs)]
    return fleet, actions


def side_by_side(games: Sequence[tuple[Config, int]]) -> "Together | Apart":
    """Lanes of several games, so many each, as if they were of one; where there are cores for it, in processes."""
    if all(names.is_atari(config.env) for config, _ in games):
        from sacd.envs import apart  # noqa: PLC0415

        if several := apart.processes(games):
            return apart.Apart(games, several)
    return Together([make_lanes(config, lanes, len(games)) for config, lanes in games], [lanes for _, lanes in games])


class Pool:
    """All lanes of a fleet, run by run: lane l belongs to run l // E."""

    def __init__(self, configs: list[Config], lanes: int, stream: str = "episodes"):
        self.runs, self.each, self.count = len(configs), lanes, len(configs) * lanes
        self.run_seeds, self.stream = [c.seed for c in configs], stream
        self.lanes, self.actions_of = lanes_of(configs, lanes)
        self.spec = self.lanes.spec  # with the most actions of any run
        self.resets = np.zeros(self.count, np.int64)  # seeded resets so far
        self.actions: list[list[int]] = [[] for _ in range(self.count)]  # since the last of them
        self.due = np.zeros(self.count, bool)  # to be reseeded at the next episode end
        self.score, self.length = np.zeros(self.count), np.zeros(self.count, np.int64)
        self.frame = np.empty(0)

    def of(self, run: int) -> range:
        """A run's lanes."""
        return range(run * self.each, (run + 1) * self.each)

    def start(self) -> NDArray:
        """First frames of all lanes."""
        self.frame = self.lanes.reset({i: self._seed(i, 0) for i in range(self.count)}, first=True)
        return self.frame

    def checkpoint_passed(self) -> None:
        """A regular checkpoint is due now: from here on lanes are reseeded at their next episode end."""
        self.due[:] = True

    def send(self, actions: NDArray) -> None:
        """Begin a step of all lanes."""
        self._sent = actions
        due = np.flatnonzero(self.due).tolist()
        self.lanes.send(actions, {i: self._seed(i, self.resets[i] + 1) for i in due})

    def recv(self) -> tuple[Step, list[Episode]]:
        """Finish it: the answers, and the episodes that ended."""
        step = self.lanes.recv()
        self.frame = step.frame
        self.score += step.reward
        self.length += 1
        for log, action in zip(self.actions, self._sent.tolist(), strict=True):
            log.append(action)
        return step, [self._finish(int(i)) for i in np.flatnonzero(step.ended)]

    def close(self) -> None:
        self.lanes.close()

    def save(self, run: int) -> dict[str, Any]:
        """A run's lanes as plain data, but for the recorded actions."""
        mine = self.of(run)
        return {
            "resets": self.resets[mine].tolist(),
            "due": self.due[mine].tolist(),
            "score": self.score[mine].tolist(),
            "length": self.length[mine].tolist(),
            "frame": [self._hash(i) for i in mine],
        }

    def recorded(self, run: int) -> list[NDArray[np.int16]]:
        """A run's actions since each lane's last seeded reset."""
        return [np.array(self.actions[i], np.int16) for i in self.of(run)]

    def load(
        self, saved: list[dict[str, Any]], recorded: list[list[NDArray]], check: Callable[[], None] = lambda: None
    ) -> list[int]:
        """Bring all lanes back where they were saved. The lanes that cannot be (their environment is not
        deterministic) are given back, at the start of a new episode. `check` is called at every step on the way."""
        for r, data in enumerate(saved):
            mine = slice(r * self.each, (r + 1) * self.each)
            for k in ("resets", "due", "score", "length"):
                getattr(self, k)[mine] = data[k]
        self.actions = [actions.tolist() for run in recorded for actions in run]
        self._replay(check)
        wanted = [h for data in saved for h in data["frame"]]
        lost = [i for i in range(self.count) if self._hash(i) != wanted[i]]
        for i in lost:
            self.resets[i] += 1
            self.actions[i], self.score[i], self.length[i] = [], 0.0, 0
        if lost:
            self.frame = self.lanes.reset({i: self._seed(i, self.resets[i]) for i in lost})
        return lost

    def _replay(self, check: Callable[[], None]) -> None:
        """Seeded reset, then the recorded actions. Shorter records start later, so that all lanes end together."""
        longest = max(map(len, self.actions))
        seeds = {i: self._seed(i, self.resets[i]) for i in range(self.count)}
        self.frame = self.lanes.reset(dict(seeds), first=True)
        for tick in range(longest + 1):
            check()
            begins = {i: seeds[i] for i, log in enumerate(self.actions) if longest - len(log) == tick}
            if begins and tick:
                self.frame = self.lanes.reset(dict(begins))
            if tick < longest:
                at = [tick - (longest - len(log)) for log in self.actions]
                acts = [log[t] if t >= 0 else 0 for log, t in zip(self.actions, at, strict=True)]
                self.lanes.send(np.array(acts), {})
                self.frame = self.lanes.recv().frame

    def _finish(self, i: int) -> Episode:
        episode = Episode(i, float(self.score[i]), int(self.length[i]))
        self.score[i], self.length[i] = 0.0, 0
        if self.due[i]:  # it has just been reseeded
            self.resets[i] += 1
            self.due[i], self.actions[i] = False, []
        return episode

    def _seed(self, lane: int, reset: int) -> int:
        run, e = divmod(lane, self.each)
        return rng.derived_seed(self.run_seeds[run], f"{self.stream}/{e}", int(reset))

    def _hash(self, lane: int) -> str:
        return hashlib.sha256(self.frame[lane].tobytes()).hexdigest()
