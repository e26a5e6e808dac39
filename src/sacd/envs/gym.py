"""Any Gymnasium environment with a Discrete action space and Box observations, in lanes, in this process or in workers.

Autoreset is done here, with the mode in which Gymnasium leaves it to the caller: the true last frame of an episode is
never replaced, and a lane can start its next episode from a given seed. What an environment returns is checked at every
step, because checkers that look once miss what kills long runs.
"""

import contextlib
import math
import multiprocessing
import signal
import traceback
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

import sacd.envs.toy  # noqa: F401  registers this package's own worlds, in worker processes too
from sacd.config import Config
from sacd.errors import DivergedError, EnvError
from sacd.types import NOT_ENDED, TERMINATED, TRUNCATED, Spec, Step

MOST_ACTIONS = np.iinfo(np.int16).max


def make_one(env: str) -> gym.Env:
    """One environment by id."""
    return gym.make(env, disable_env_checker=True)


def make_in_worker(env: str) -> gym.Env:
    """The same in a process of its own, which leaves Ctrl-C and its kin to the one that learns."""
    if multiprocessing.parent_process() is not None:  # Gymnasium makes one here too, to see its spaces
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
    return make_one(env)


class GymLanes:
    """Lanes of one Gymnasium environment."""

    def __init__(self, config: Config, lanes: int):
        self.config, self.env_id, self.lanes = config, config.env, lanes
        kind = AsyncVectorEnv if config.async_envs else SyncVectorEnv
        try:
            makers = [partial(make_in_worker if config.async_envs else make_one, config.env)] * lanes
            self.env = kind(makers, autoreset_mode=AutoresetMode.DISABLED, copy=False)  # `_frames` copies
        except Exception as error:
            raise EnvError(f"environment {config.env} cannot be made: {type(error).__name__}: {error}") from error
        self.spec = spec_of(config, self.env.single_observation_space, self.env.single_action_space)

    def reset(self, seeds: dict[int, int | None], first: bool = False) -> NDArray:
        """Start the lanes in `seeds` anew; the frames of all lanes."""
        each = [seeds.get(i) for i in range(self.lanes)]
        mask = np.array([i in seeds for i in range(self.lanes)])
        obs, _ = self._call(lambda: self.env.reset(seed=each, options=None if first else {"reset_mask": mask}))
        return self._frames(obs)

    def send(self, actions: NDArray, seeds: dict[int, int]) -> None:
        """Begin a step: workers run while the caller learns. An episode that ends with it is followed by another, from
        the lane's seed in `seeds` if it has one."""
        self._actions, self._seeds = actions + self.spec.action_start, seeds
        if isinstance(self.env, AsyncVectorEnv):
            self._call(lambda: self.env.step_async(self._actions))

    def recv(self) -> Step:
        """Finish a step."""
        wait = self.env.step_wait if isinstance(self.env, AsyncVectorEnv) else lambda: self.env.step(self._actions)
        obs, reward, terminated, truncated, _ = self._call(wait)
        if not np.isfinite(reward).all():
            raise DivergedError(
                f"{self.env_id} returned a reward that is not finite ({reward}); nothing of it was learned."
            )
        final = self._frames(obs)
        ended = terminated | truncated
        frame = self.reset({int(i): self._seeds.get(int(i)) for i in np.flatnonzero(ended)}) if ended.any() else final
        at_limit = TERMINATED if self.config.time_limit_terminal else TRUNCATED
        closes = np.where(terminated, TERMINATED, np.where(truncated, at_limit, NOT_ENDED)).astype(np.uint8)
        return Step(frame, final, reward, closes, ended)

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError):  # a worker may be gone already
            self.env.close()

    def _frames(self, obs: NDArray) -> NDArray:
        frames = np.array(obs, dtype=np.uint8 if self.spec.image else np.float32)  # a copy: some envs reuse theirs
        if not self.spec.image and not np.isfinite(frames).all():
            raise DivergedError(f"{self.env_id} returned an observation that is not finite; nothing of it was learned.")
        return frames

    def _call(self, function):
        try:
            return function()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            for process in getattr(self.env, "processes", ()):  # closing would wait for the dead one
                process.kill()
            self.env.closed = True
            raise EnvError(f"a worker of {self.env_id} was killed, perhaps for want of memory.") from error
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}, line {where.lineno}"
            raise EnvError(f"{self.env_id} raised {type(error).__name__}: {error} ({place})") from error


def spec_of(config: Config, obs: gym.Space, action: gym.Space) -> Spec:
    """What this package needs to know of an environment's spaces, or a sentence on why they do not fit."""
    if not isinstance(action, spaces.Discrete):
        hint = " Continuous actions need another agent." if isinstance(action, spaces.Box) else ""
        raise EnvError(f"{config.env} has the action space {action}; discrete SAC needs Discrete.{hint}")
    if action.n > MOST_ACTIONS:
        raise EnvError(f"{config.env} has {action.n} actions; the replay holds numbers below {MOST_ACTIONS + 1}.")
    if not isinstance(obs, spaces.Box):
        raise EnvError(
            f"{config.env} has the observation space {obs}; discrete SAC needs a Box. Register the environment in a "
            "wrapper that makes one (gymnasium's FlattenObservation), and train that: sacd train module:Id-v0."
        )
    if not math.prod(obs.shape):
        raise EnvError(f"{config.env} has observations of shape {obs.shape}: there is nothing to see.")
    image = obs.dtype == np.uint8 and len(obs.shape) in (2, 3)
    if image and len(obs.shape) == 3 and obs.shape[0] <= 4 < min(obs.shape[1:]):
        raise EnvError(
            f"{config.env} has images of shape {obs.shape}, colours first; a wrapper must move them last: (H, W, C)."
        )
    if not image and len(obs.shape) != 1:
        raise EnvError(
            f"{config.env} has observations of shape {obs.shape} and type {obs.dtype}; "
            "take vectors, or images of type uint8 (H, W) or (H, W, C)."
        )
    stack = config.stack if image else 1
    return Spec(tuple(map(int, obs.shape)), image, stack, int(action.n), int(action.start))
