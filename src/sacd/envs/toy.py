"""Small worlds with known answers, registered with Gymnasium: to try the whole chain in seconds.

`sacd/Catch-v0` is a pixel world: a ball falls, a paddle three cells wide at the bottom must catch it. +1 or -1 at the
end; random play gets about -0.4, perfect play 1.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

CELLS, PIXELS = 9, 4  # 9 x 9 cells of 4 x 4 pixels: 36 x 36, the smallest image the Nature CNN takes


class Catch(gym.Env):
    """Actions: 0 left, 1 stay, 2 right."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (CELLS * PIXELS, CELLS * PIXELS), np.uint8)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.row, self.ball, self.paddle = 0, int(self.np_random.integers(CELLS)), CELLS // 2
        return self._image(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.row += 1
        self.paddle = int(np.clip(self.paddle + action - 1, 1, CELLS - 2))
        over = self.row == CELLS - 1
        reward = (1.0 if abs(self.ball - self.paddle) <= 1 else -1.0) if over else 0.0
        return self._image(), reward, over, False, {}

    def _image(self) -> np.ndarray:
        cells = np.zeros((CELLS, CELLS), np.uint8)
        cells[-1, self.paddle - 1 : self.paddle + 2] = 128
        cells[self.row, self.ball] = 255
        return cells.repeat(PIXELS, 0).repeat(PIXELS, 1)


gym.register("sacd/Catch-v0", entry_point="sacd.envs.toy:Catch")
