"""Environments that do one thing on purpose, most of them badly. `worlds:worlds/Name-v0` registers and makes one."""

import os
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

SICK = 3  # the step at which the faulty ones fail


class World(gym.Env):
    """Counts its steps: the observation is (a number from the seed, steps, the last action). Ends after `length`."""

    action_space: gym.Space = spaces.Discrete(3)
    observation_space: gym.Space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    length = 10**9

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.mark, self.t, self.last = self.draw(), 0, -1
        return self.show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.t, self.last = self.t + 1, int(action)
        return self.show(), self.reward(), self.t >= self.length, False, {}

    def draw(self) -> float:
        return float(self.np_random.integers(1000))

    def show(self) -> Any:
        return np.array([self.mark, self.t, self.last], np.float32)

    def reward(self) -> float:
        return float(self.t)


class Short(World):
    """Terminates after four steps."""

    length = 4


class Both(World):
    """Terminates in the very step in which its time is up."""

    length = 5


class Shifted(World):
    """Its actions are 5, 6 and 7."""

    action_space = spaces.Discrete(3, start=5)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert action in (5, 6, 7)
        return super().step(action)


class Reuser(World):
    """Shows the same array each time."""

    shown = np.zeros(3, np.float32)

    def show(self) -> np.ndarray:
        self.shown[:] = super().show()
        return self.shown


class Fickle(World):
    """Takes no notice of its seed."""

    def draw(self) -> float:
        return float(int.from_bytes(os.urandom(2), "little"))


class NanReward(World):
    def reward(self) -> float:
        return float("nan") if self.t == SICK else 1.0


class InfReward(World):
    def reward(self) -> float:
        return float("-inf") if self.t == SICK else 1.0


class NanObs(World):
    def show(self) -> np.ndarray:
        return super().show() * (np.nan if self.t == SICK else 1.0)


class Raiser(World):
    def reward(self) -> float:
        if self.t == SICK:
            raise KeyError("no such reward")
        return 1.0


class Dier(World):
    """Ends its process, as the kernel does where memory is short."""

    def reward(self) -> float:
        if self.t == SICK:
            os._exit(1)
        return 1.0


class Crooked(World):
    """Shows another shape than it announced."""

    def show(self) -> np.ndarray:
        return super().show() if self.t < SICK else np.zeros(7, np.float32)


class Pixels(World):
    """Colour images, each pixel the step."""

    observation_space = spaces.Box(0, 255, (40, 44, 3), np.uint8)

    def show(self) -> np.ndarray:
        return np.full((40, 44, 3), self.t, np.uint8)


class Continuous(World):
    action_space = spaces.Box(-1, 1, (2,), np.float32)


class Many(World):
    action_space = spaces.MultiDiscrete([2, 3])


class DictSeen(World):
    observation_space = spaces.Dict({"a": spaces.Box(0, 1, (2,), np.float32)})


class TupleSeen(World):
    observation_space = spaces.Tuple((spaces.Box(0, 1, (2,), np.float32), spaces.Discrete(2)))


class NumberSeen(World):
    observation_space = spaces.Discrete(4)


class FloatImage(World):
    observation_space = spaces.Box(0, 1, (84, 84), np.float32)


class SmallImage(World):
    observation_space = spaces.Box(0, 255, (20, 20), np.uint8)


class Endless(World):
    """Never ends, and has no limit of its own."""


class OneAction(World):
    action_space = spaces.Discrete(1)
    length = 20


def world(name: str) -> str:
    """The id of one of these."""
    return f"worlds:worlds/{name}-v0"


for _kind in World.__subclasses__():
    _limit = {"Short": 50, "Both": 5, "OneAction": None, "Endless": None}.get(_kind.__name__, 200)
    gym.register(f"worlds/{_kind.__name__}-v0", entry_point=_kind, max_episode_steps=_limit)
gym.register("worlds/World-v0", entry_point=World, max_episode_steps=5)
