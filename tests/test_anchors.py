"""Scores that are known beforehand: constant actions, by the evaluator that scores runs, against a plain loop."""

import pytest
import torch
from ale_py import Action, ALEInterface, LoggerMode, roms

from sacd import config
from sacd.envs import names
from sacd.envs.atari import noops
from sacd.envs.pool import make_lanes
from sacd.evaluate import Player, play, seed


def evaluated(player: Player, action: Action) -> list[float]:
    """Scores of one action, taken always."""
    lanes = make_lanes(player.config, 1)
    index = lanes.env.ale.get_action_set().index(action)
    lanes.close()
    return play([player], lambda obs, u: torch.full(u.shape[:2], index), torch.device("cpu"))[0]


def plainly(player: Player, action: Action, episode: int) -> float:
    """The same with the emulator itself: single no-ops, FIRE where the game has it, then the action to the end."""
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(names.rom(player.config.env)))
    ale.reset_game()
    for _ in range(noops(seed(player.config, player.stream, episode), 30)):
        ale.act(Action.NOOP)
    if Action.FIRE in ale.getMinimalActionSet():
        ale.act(Action.FIRE)
    score = 0.0
    while not ale.game_over():
        score += ale.act(action)
    return score


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "action"),
    [
        ("Freeway", Action.UP), ("Pong", Action.NOOP), ("SpaceInvaders", Action.FIRE),
        ("SpaceInvaders", Action.RIGHTFIRE), ("SpaceInvaders", Action.LEFTFIRE),
    ],
)  # fmt: skip
def test_a_constant_action_scores_what_a_plain_loop_scores(game, action):
    """Episode by episode: Freeway 20 to 23, Pong -21, SpaceInvaders 285, 270 and 285, whatever the no-ops."""
    player = Player(config.make(f"ALE/{game}-v5", "paper", eval_episodes=3, seed=2), 0, "greedy")
    found = evaluated(player, action)
    assert found == [plainly(player, action, episode) for episode in range(3)]
    assert game != "Pong" or found == [-21.0] * 3
