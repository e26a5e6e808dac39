"""The environment of the `author` preset against a plain loop over the emulator, written out here."""

import cv2
import numpy as np
import pytest
from ale_py import Action, ALEInterface, LoggerMode, roms

from sacd import config
from sacd.envs import names
from sacd.envs.atari import AtariLanes
from sacd.types import NOT_ENDED, TERMINATED

SKIPS = {"SpaceInvaders": 3, "Breakout": 4, "Seaquest": 4, "Pong": 4}


class Loop:
    """One game: no sticky actions, no no-ops, FIRE at a start; a lost life or the time limit is terminal, and then a
    new game begins."""

    def __init__(self, game: str, limit: int):
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale, self.limit = ALEInterface(), limit
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(roms.get_rom_path(names.rom(f"ALE/{game}-v5")))
        self.actions, self.skip = self.ale.getMinimalActionSet(), SKIPS[game]

    def reset(self) -> np.ndarray:
        self.ale.reset_game()
        if Action.FIRE in self.actions:
            self.ale.act(Action.FIRE)
        self.lives, self.steps = self.ale.lives(), 0
        return self.frame()

    def frame(self) -> np.ndarray:
        """The last of the skipped frames, no maximum over two."""
        return cv2.resize(self.ale.getScreenGrayscale(), (84, 84), interpolation=cv2.INTER_AREA)

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        reward = 0.0
        for _ in range(self.skip):
            reward += self.ale.act(self.actions[action])
            if self.ale.game_over():
                break
        self.steps += 1
        return self.frame(), reward, self.ale.game_over() or self.ale.lives() < self.lives or self.steps == self.limit


@pytest.mark.parametrize("game", SKIPS)
@pytest.mark.parametrize("seed", [3, 4])
def test_author_is_a_plain_loop(game, seed):
    """With the same actions every frame, reward and end is the same, whatever the emulator's seed, over many starts."""
    limit = 90
    chosen = config.make(f"ALE/{game}-v5", "author", time_limit=limit)
    made, loop = AtariLanes(chosen, 1), Loop(game, limit)
    frame, first, ends = made.reset({0: seed}, first=True)[0], loop.reset(), 0
    np.testing.assert_array_equal(frame, first)
    for action in np.random.default_rng(0).integers(made.spec.actions, size=300).tolist():
        made.send(np.array([action]), {})
        now = made.recv()
        frame, reward, over = loop.step(action)
        assert (now.reward[0], now.closes[0], now.ended[0]) == (reward, TERMINATED if over else NOT_ENDED, over)
        ends += over  # of a terminal state no frame is learned from, and ALE shows the one before
        np.testing.assert_array_equal(now.frame[0], loop.reset() if over else frame)
    made.close()
    assert ends >= 3
