"""Words on the command line: more that cannot be meant, environments of one's own, and measuring."""

import re
import time
from pathlib import Path

import pytest

from sacd.cli import main
from tiny import words

RATES = ("emulators alone", "learner alone", "together")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (["train", "CartPole-v1", "--lr", "1e-3"], "Did you mean --learning-rate?"),
        (["train", "CartPole-v1", "--target-entropy", "0.3", "--target-entropy-ratio", "0.5"], "give one of them"),
        (["train", "CartPole-v1", "--n-envs", "64", "--steps", "10"], "not one step in each lane"),
        (["train", "CartPole-v1", "--alpha", "1e300"], "out of range"),
        (["train", "CartPole-v1", "--alpha-init", "9", "--alpha-max", "2"], "not between"),
        (["train", "CartPole-v1", "--seed", "-1"], "take 0 to 4294967295"),
    ],
)
def test_more_words_that_cannot_be_meant(given, hint, here, capsys):
    """Each is a sentence and exit code 2, and nothing is made."""
    assert main(given) == 2
    assert hint in capsys.readouterr().err
    assert not list(here.iterdir())


def test_evaluate_names_its_own_option(here, capsys):
    """--episodes is called so in its error."""
    assert main(words("CartPole-v1", here / "run", steps=120)) == 0
    assert main(["evaluate", "run", "--episodes", "x"]) == 2
    assert "--episodes: 'x'" in capsys.readouterr().err


def test_a_module_in_the_current_folder(here, capsys):
    """An environment of one's own is found where one stands, and the command to play it again works."""
    (here / "mine.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gym.register('Mine-v0', CartPoleEnv, max_episode_steps=20)\n"
    )
    assert main(words("mine:Mine-v0", here / "run", steps=120)) == 0
    said = capsys.readouterr().out
    command = next(line for line in said.splitlines() if line.startswith("again")).split()
    assert main([*command[command.index("evaluate") :], "--episodes", "1"]) == 0


def test_doctor_measures(here, capsys):
    """--bench prints the rates of emulators alone, of the learner alone and of both, and leaves nothing."""
    assert main(["doctor", "--bench", "--games", "CartPole-v1", "--seeds", "2", "--seconds", "0.2"]) == 0
    said = capsys.readouterr().out
    rates = [float(re.search(rf"{name} +([\d,]+) steps/s", said)[1].replace(",", "")) for name in RATES]
    assert min(rates) > 0
    assert "2 runs of CartPole-v1" in said and not list(here.iterdir())


def test_a_name_that_is_too_long(tmp_path, capsys):
    """What the disk refuses is a sentence."""
    assert main(words("CartPole-v1", tmp_path / ("x" * 300), steps=120)) == 5
    assert "too long" in capsys.readouterr().err


def test_a_refused_run_closes_its_workers(tmp_path, capfd):
    """A run that cannot be begins no noise: the sentence, and no traceback of a worker."""
    fields = {"async_envs": "true", "n_envs": 2, "target_entropy": 0.9}
    assert main(words("CartPole-v1", tmp_path / "run", **fields)) == 2
    time.sleep(0.5)
    said = capfd.readouterr().err
    assert "unreachable" in said and "Traceback" not in said
