"""What people type for an environment, and what they get."""

import pytest

from sacd.envs import names
from sacd.errors import UsageError

SPELLINGS = {
    "ALE/Pong-v5": [
        "Pong", "pong", "PONG", " Pong", "ALE/Pong-v5", "Pong-v0", "Pong-v4", "Pong-v5",
        "PongNoFrameskip-v4", "PongDeterministic-v4", "PongDeterministic-v0",
    ],
    "ALE/MsPacman-v5": ["MsPacman", "mspacman", "ms_pacman", "Ms. Pac-Man", "ms pacman", "MsPacmanNoFrameskip-v4"],
    "ALE/SpaceInvaders-v5": ["SpaceInvaders", "space_invaders", "Space Invaders", "space-invaders"],
    "ALE/UpNDown-v5": ["UpNDown", "up_n_down", "Up'n Down", "upndown"],
    "ALE/Jamesbond-v5": ["Jamesbond", "JamesBond", "James Bond"],
    "ALE/Qbert-v5": ["Qbert", "Q*bert", "Q*Bert"],
    "CartPole-v1": ["CartPole-v1"],
    "Acrobot-v1": ["Acrobot-v1"],
    "sacd/Catch-v0": ["sacd/Catch-v0"],
    "some_module:Env-v0": ["some_module:Env-v0"],
}  # fmt: skip


@pytest.mark.parametrize(("typed", "wanted"), [(typed, env) for env, all_ in SPELLINGS.items() for typed in all_])
def test_spellings(typed, wanted):
    """Each way a game is commonly written is that game; a Gymnasium id is taken as it stands."""
    assert names.resolve(typed) == wanted
    assert names.is_atari(wanted) == wanted.startswith("ALE/")


def test_all_games_of_the_paper_are_there():
    """The paper's twenty games resolve to their own names and have a ROM each."""
    assert len(set(names.PAPER_GAMES)) == 20
    found = [names.resolve(game) for game in names.PAPER_GAMES]
    assert found == [f"ALE/{game}-v5" for game in names.PAPER_GAMES]
    assert len({names.rom(env) for env in found}) == 20


def test_every_rom_has_a_name_of_its_own():
    """Each installed ROM is found by its CamelCase name and by its file's name."""
    for game, rom in names.roms().items():
        assert names.rom(names.resolve(game)) == names.rom(names.resolve(rom)) == rom


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("Pnog", "Pong"),
        ("Breakuot", "Breakout"),
        ("MsPacmann", "MsPacman"),
        ("CartPol-v1", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPole", "CartPole-v1"),
        ("sacd/Cach-v0", "sacd/Catch-v0"),
    ],
)
def test_a_near_miss_is_answered_with_what_was_meant(typed, near):
    """An unknown name is refused with the nearest known one."""
    with pytest.raises(UsageError, match=f"unknown environment '{typed}'.*Did you mean.*{near}"):
        names.resolve(typed)


@pytest.mark.parametrize("typed", ["", "   ", "Xyzzy!", "ALE/Xyzzy-v5", "../runs", "Pong-v5-v5-ram"])
def test_what_is_like_nothing(typed):
    """Without a near name the sentence says what names look like."""
    with pytest.raises(UsageError, match="Pong"):
        names.resolve(typed)


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ("ALE/Pong-v5", "Pong"),
        ("CartPole-v1", "CartPole-v1"),
        ("sacd/Catch-v0", "sacd-Catch-v0"),
        ("a.b:C-v0", "a.b-C-v0"),
    ],
)
def test_short_names_are_folder_names(env, folder):
    """A run's default folder is named after the environment, in one path component."""
    assert names.short(env) == folder
