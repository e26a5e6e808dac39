"""`sacd reproduce`: random play beside the runs, game by game, and what it refuses."""

import json
from pathlib import Path

import pytest

from sacd.cli import main

FEW = ["--seeds", "2", "--steps", "120", "--learning-starts", "60", "--batch-size", "4", "--eval-episodes", "2"]
FEW += ["--time-limit", "30", "--device", "cpu", "--conv-channels", "4,4,4", "--dense", "8", "--save-every", "120"]


def reproduce(out: Path, games: str = "Pong", *more: str) -> int:
    return main(["reproduce", "--games", games, "--out", str(out), *FEW, *more])


def games(out: Path) -> dict:
    return json.loads((out / "random.json").read_text())["games"]


def test_an_experiment_and_the_same_command_again(tmp_path, capsys):
    """Random play, runs, their final games and the report; the second time nothing is played or trained."""
    assert reproduce(tmp_path, "Pong,Breakout") == 0
    found = games(tmp_path)
    assert list(found) == ["Pong", "Breakout"]
    assert all(g["numbers"] == [0, 1] and [len(s) for s in g["seeds"]] == [2, 2] for g in found.values())
    assert (tmp_path / "paper_table.md").exists() and (tmp_path / "Pong_paper_s1/curve.png").exists()
    before = {p: p.read_bytes() for p in tmp_path.rglob("*.json")}
    capsys.readouterr()
    assert reproduce(tmp_path, "Pong,Breakout") == 0
    assert "4 of 4 runs are finished" in capsys.readouterr().out
    assert {p: p.read_bytes() for p in tmp_path.rglob("*.json")} == before


def test_only_missing_seeds_are_played(tmp_path):
    """More seeds are added to those that are there; fewer take none away; none changes."""
    assert reproduce(tmp_path, "Pong", "--seeds", "1") == 0
    one = games(tmp_path)["Pong"]
    assert reproduce(tmp_path, "Pong", "--seeds", "2") == 0
    two = games(tmp_path)["Pong"]
    assert two["numbers"] == [0, 1] and two["seeds"][:1] == one["seeds"]
    assert reproduce(tmp_path, "Pong", "--seeds", "1") == 0
    assert games(tmp_path)["Pong"] == two


@pytest.mark.parametrize("words", [("--time-limit", "31"), ("--eval-noop-max", "3"), ("--frame-skip", "3")])
def test_random_play_under_other_rules_is_refused(tmp_path, words, capsys):
    """Nothing is overwritten and nothing of it used."""
    assert reproduce(tmp_path) == 0
    before = (tmp_path / "random.json").read_bytes()
    assert reproduce(tmp_path, "Pong", *words, "--seeds", "7,8") == 2
    assert "other rules" in capsys.readouterr().err
    assert (tmp_path / "random.json").read_bytes() == before


@pytest.mark.parametrize(
    "text", ["{}", '{"games": []}', '{"games": {"Pong": []}}', '{"games": {"Pong": {"seeds": 1}}}', "["]
)
def test_a_damaged_random_json(tmp_path, text, capsys):
    """A sentence and exit code 4."""
    (tmp_path / "random.json").write_text(text)
    assert reproduce(tmp_path) == 4
    assert "damaged random.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--device", "cuda:7"), 5), (("--target-entropy-ratio", "1.5"), 2), (("--eval-noop-min", "31"), 2)],
)
def test_what_cannot_be_is_refused_before_anything_is_played(tmp_path, words, code):
    """No random play first."""
    assert reproduce(tmp_path, "Pong", *words) == code
    assert not (tmp_path / "random.json").exists()


def test_it_is_for_atari(tmp_path, capsys):
    """Other environments have no paper's experiment."""
    assert reproduce(tmp_path, "CartPole-v1") == 2
    assert "sacd sweep" in capsys.readouterr().err
