"""Atari through ALE's C++ vector environment: one single frame a lane and step, stacked by the replay.

The protocol is docs/protocol.md's; every choice is a field of the configuration. Rewards stay raw here. A lost life may
close the return while the game goes on; a lane's game is over when its emulator's episode counter fell behind. The time
limit is counted here, in agent steps.
"""

import numpy as np
from numpy.typing import NDArray

from sacd.config import Config
from sacd.envs import names
from sacd.errors import EnvError
from sacd.machine import cores
from sacd.types import NOT_ENDED, TERMINATED, TRUNCATED, Spec, Step


def noops(seed: int, most: int) -> int:
    """No-op frames at the start of a game from this seed: ALE draws 0 to `most` of them, evenly."""
    first = int(np.random.RandomState(seed).randint(2**32, dtype=np.uint32))  # the Mersenne twister's, as in ALE
    return first * (most + 1) >> 32


class AtariLanes:
    """Lanes of one game."""

    def __init__(self, config: Config, lanes: int, games: int = 1):
        try:
            from ale_py.vector_env import AtariVectorEnv  # noqa: PLC0415  optional until a game is asked for
        except ImportError as error:
            raise EnvError("Atari games need the package ale-py: pip install 'ale-py>=0.12'.") from error
        self.config, self.lanes, self._length = config, lanes, np.zeros(lanes, np.int64)
        self.env = AtariVectorEnv(
            names.rom(config.env),
            lanes,
            num_threads=min(lanes, -(-3 * cores() // (2 * games))),  # a thread that waits leaves its core
            max_num_frames_per_episode=2**31 - 1,  # at its own limit ALE shows the frame before the last
            repeat_action_probability=config.sticky,
            full_action_space=config.full_actions,
            autoreset_mode="SameStep",
            stack_num=1,
            frameskip=config.frame_skip,
            maxpool=config.max_pool,
            noop_max=config.noop_max + 1,  # ALE draws below it
            use_fire_reset=config.fire_reset,
            episodic_life=config.life_loss == "reset",
            life_loss_info=config.life_loss == "terminal",
            reward_clipping=False,
        )
        self.spec = Spec((84, 84), True, config.stack, len(self.env.ale.get_action_set()))

    def reset(self, seeds: dict[int, int | None], first: bool = False) -> NDArray:
        """Start the lanes in `seeds` anew; the frames of all lanes."""
        mask = np.array([i in seeds for i in range(self.lanes)])
        self._length[mask] = 0
        values = np.array([-1 if seeds[i] is None else seeds[i] for i in sorted(seeds)])
        obs, info = self.env.reset(seed=values, options=None if first else {"reset_mask": mask})
        self._clock = info["frame_number"] - info["episode_frame_number"]
        return obs[:, 0].copy()

    def send(self, actions: NDArray, seeds: dict[int, int]) -> None:
        """Begin a step; the emulators run in threads of their own. A game that is over with it is followed by another,
        from the lane's seed in `seeds` if it has one."""
        self._seeds = seeds
        self.env.send(actions)

    def recv(self) -> Step:
        """Finish a step."""
        seeds = self._seeds
        obs, reward, terminated, _, info = self.env.recv()
        # Both counters advance together within a game; a new game sets back only the second.
        clock = info["frame_number"] - info["episode_frame_number"]
        ended, self._clock = clock != self._clock, clock
        frame = obs[:, 0].copy()
        final = frame
        if ended.any():  # of the other lanes `final_obs` holds whatever lay there before
            final = np.where(ended[:, None, None], info["final_obs"][:, 0], frame)
        self._length = np.where(ended, 0, self._length + 1)
        limit = self._length >= self.config.time_limit
        again: dict[int, int | None] = {int(i): seeds.get(int(i)) for i in np.flatnonzero(limit)}
        again |= {int(i): seeds[int(i)] for i in np.flatnonzero(ended) if int(i) in seeds}
        if again:
            frame = self.reset(again)
        at_limit = TERMINATED if self.config.time_limit_terminal else TRUNCATED
        closes = np.where(terminated, TERMINATED, np.where(limit, at_limit, NOT_ENDED)).astype(np.uint8)
        return Step(frame, final, reward.astype(np.float64), closes, ended | limit)

    def close(self) -> None:
        self.env.close()
