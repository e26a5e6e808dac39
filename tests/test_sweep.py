"""Games x seeds in one program: the folders that single runs would leave, whatever fails or stops on the way."""

import json
import weakref
from pathlib import Path

import gymnasium as gym
import pytest

from sacd import sweep
from sacd.cli import main, seed_numbers
from sacd.envs.gym import GymLanes
from sacd.errors import EnvError
from sacd.runs import RunFolder
from sacd.train import Training
from tiny import COMMON, Crash, crash_at, listing, options, results, same_results

FIELDS = COMMON | {"steps": 300, "preset": "classic"}
CATCH = {"eval_episodes": 1, "steps": 140}


def swept(out: Path, games: str, seeds: str = "2", code: int = 0, **values) -> None:
    words = ["sweep", "--games", games, "--seeds", seeds, "--out", str(out), *options(**(FIELDS | values))]
    assert main(words) == code


def single(out: Path, env: str, seed: int, **values) -> Path:
    run = out / f"{env.replace('/', '-')}_classic_s{seed}"
    assert main(["train", env, "--run", str(run), "--seed", str(seed), *options(**(FIELDS | values))]) == 0
    return run


def runs(out: Path) -> dict[str, Path]:
    return {p.name: p for p in sorted(out.iterdir()) if p.is_dir()}


def test_a_sweep_leaves_what_single_runs_leave(tmp_path, capsys):
    """Two seeds of a game have the weights, replay, logs and scores of the same runs trained alone, to the bit."""
    swept(tmp_path / "sweep", "CartPole-v1", "3,1")
    for seed in (3, 1):
        alone = single(tmp_path / "alone", "CartPole-v1", seed)
        same_results(results(tmp_path / "sweep" / alone.name), results(alone))
    assert (tmp_path / "sweep" / "curve.png").exists()
    assert "CartPole-v1" in capsys.readouterr().out


def test_parts_side_by_side_are_as_one_after_the_other(tmp_path, monkeypatch):
    """Two parts in threads of their own leave the bits that each leaves alone."""
    monkeypatch.setattr(sweep, "fleets", lambda jobs, device: [[jobs[:2], jobs[2:]]])
    swept(tmp_path / "both", "CartPole-v1", "4")
    monkeypatch.setattr(sweep, "fleets", lambda jobs, device: [[jobs[:2]], [jobs[2:]]])
    swept(tmp_path / "each", "CartPole-v1", "4")
    both, each = runs(tmp_path / "both"), runs(tmp_path / "each")
    assert len(both) == 4
    for name, folder in both.items():
        same_results(results(folder), results(each[name]))


def test_games_of_different_actions_in_one_fleet(tmp_path, monkeypatch):
    """A mixed fleet leaves models of each game's own size that `sacd evaluate` plays."""
    monkeypatch.setattr(sweep, "fleets", lambda jobs, device: [[jobs]])
    swept(tmp_path, "Freeway,Breakout", "1", **(CATCH | {"batch_size": 4, "time_limit": 40}))
    for name, actions in (("Freeway_classic_s0", 3), ("Breakout_classic_s0", 4)):
        scores = json.loads((tmp_path / name / "evaluation.json").read_text())
        assert len(scores["greedy"]["scores"]) == len(scores["sampled"]["scores"]) == 1
        taken = results(tmp_path / name)["model"]["actor.4.weight"][0]
        assert taken[-2:] == (actions, 512)
        assert main(["evaluate", str(tmp_path / name), "--episodes", "1"]) == 0


def test_a_killed_sweep_goes_on(tmp_path, monkeypatch, capsys):
    """A sweep that died is finished by the same command, with the same bits; again, it says that all is done."""
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, 250)
        with pytest.raises(Crash):
            swept(tmp_path / "killed", "CartPole-v1")
    swept(tmp_path / "killed", "CartPole-v1")
    swept(tmp_path / "whole", "CartPole-v1")
    for name, folder in runs(tmp_path / "whole").items():
        same_results(results(folder), results(tmp_path / "killed" / name))
    capsys.readouterr()
    swept(tmp_path / "whole", "CartPole-v1")
    assert "2 of 2 runs are finished" in capsys.readouterr().out


def test_seeds_that_come_later(tmp_path):
    """More seeds in a later sweep: those that are under way go on where they were, the new ones begin."""
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, 250)
        with pytest.raises(Crash):
            swept(tmp_path / "a", "CartPole-v1", "1")
    swept(tmp_path / "a", "CartPole-v1", "2")
    swept(tmp_path / "b", "CartPole-v1", "2")
    for name, folder in runs(tmp_path / "b").items():
        same_results(results(folder), results(tmp_path / "a" / name))


def test_a_failing_game_does_not_take_the_others(tmp_path, monkeypatch, capsys):
    """One game's emulator breaks: its runs are reported, the others end as if it had not been there."""
    monkeypatch.setattr(sweep, "fleets", lambda jobs, device: [[jobs]] if jobs else [])
    gym.register("Cart-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=500)
    recv, calls = GymLanes.recv, []

    def breaks(self):
        calls.extend([1] * (self.env_id == "Cart-v0"))
        if self.env_id == "Cart-v0" and len(calls) > 150:
            raise EnvError("Cart-v0 raised an error of the test")
        return recv(self)

    monkeypatch.setattr(GymLanes, "recv", breaks)
    swept(tmp_path / "mixed", "CartPole-v1,Cart-v0", "2", code=1)
    said = capsys.readouterr()
    assert "Cart-v0_classic_s0 failed" in said.err and "2 runs failed" in said.err
    assert "error of the test" in (tmp_path / "mixed" / "Cart-v0_classic_s1" / "error.log").read_text()
    assert "0 of 2" in said.out, "the table shows what is missing"
    for seed in (0, 1):
        alone = single(tmp_path / "alone", "CartPole-v1", seed)
        same_results(results(tmp_path / "mixed" / alone.name), results(alone))


def test_a_diverging_run_does_not_take_the_others(tmp_path, monkeypatch, capsys):
    """One seed's weights become infinite: that run is reported, the other ends as if alone."""
    turn = Training._turn

    def poisoned(self):
        turn(self)
        if self.clock.step == 150:
            for r, folder in enumerate(self.folders):
                if folder.path.name.endswith("_s1"):
                    self.state.critics.tensors["0.bias"][r].fill_(float("inf"))

    monkeypatch.setattr(Training, "_turn", poisoned)
    swept(tmp_path / "two", "CartPole-v1", "2", code=1)
    assert "_s1 failed" in capsys.readouterr().err
    alone = single(tmp_path / "alone", "CartPole-v1", 0)
    same_results(results(tmp_path / "two" / alone.name), results(alone))
    assert not RunFolder(tmp_path / "two" / "CartPole-v1_classic_s1").finished()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--games", "Pogn"], "Did you mean Pong"),
        (["--games", "Pong,CartPole-v1"], "not both in one program"),
        (["--games", ""], "name the --games"),
        (["--games", "Pong", "--seed", "3"], "--seeds"),
        (["--games", "Pong", "--seeds", "many"], "say how many"),
        (["--games", "Pong", "--seeds", "100k"], "take 1 to 10000 seeds"),
        (["--games", "Pong", "--seeds", "0"], "take 1 to 10000 seeds"),
    ],
)
def test_wrong_words(words, hint, tmp_path, capsys):
    """Each is a sentence and exit code 2, and nothing is made."""
    assert main(["sweep", "--out", str(tmp_path / "out"), *words]) == 2
    assert hint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_seeds_named_twice_are_one(tmp_path):
    """A seed is a run, however often it is named."""
    assert seed_numbers("3,3,4") == [3, 4]
    assert seed_numbers("3") == [0, 1, 2] and seed_numbers("7,") == [7]


def test_places_that_cannot_hold_runs(tmp_path, capsys):
    """A file, and a run's own folder, are refused before anything is made."""
    (tmp_path / "file").write_text("mine")
    run = single(tmp_path / "alone", "CartPole-v1", 0)
    before = listing(run)
    for out, code, hint in ((tmp_path / "file", 5, "is a file"), (run, 2, "itself a run's folder")):
        swept(out, "CartPole-v1", "1", code=code)
        assert hint in capsys.readouterr().err
    assert listing(run) == before and (tmp_path / "file").read_text() == "mine"


def test_a_game_that_cannot_be_played_stops_the_sweep_before_it_begins(tmp_path, capsys):
    """Continuous actions in one of the games: its sentence, and no folder of any."""
    swept(tmp_path / "out", "CartPole-v1,Pendulum-v1", "1", code=3)
    assert "Continuous actions" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())


def test_a_damaged_run_does_not_take_the_others(tmp_path, monkeypatch, capsys):
    """One seed's checkpoints are all damaged: that run is reported, the other goes on to its end."""
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, 250)
        with pytest.raises(Crash):
            swept(tmp_path / "out", "CartPole-v1", "2")
    for checkpoint in RunFolder(tmp_path / "out" / "CartPole-v1_classic_s0").saved_steps():
        (checkpoint / "manifest.json").write_text("{}")
    swept(tmp_path / "out", "CartPole-v1", "2", code=1)
    said = capsys.readouterr().err
    assert "CartPole-v1_classic_s0 failed" in said and "CartPole-v1_classic_s1 failed" not in said
    alone = single(tmp_path / "alone", "CartPole-v1", 1)
    same_results(results(tmp_path / "out" / alone.name), results(alone))


def test_a_failed_fleet_is_not_kept(tmp_path, monkeypatch):
    """When the others begin again, the replay of the fleet that failed is gone: a GPU holds it only once."""
    alive: list[int] = []
    turn, prepare = Training._turn, Training._prepare
    tapes: list[weakref.ref] = []

    def watched(self, configs):
        alive.append(sum(tape() is not None for tape in tapes))
        prepare(self, configs)
        tapes.append(weakref.ref(self.replay))

    def fails(self):
        turn(self)
        if len(self.folders) > 1 and self.clock.step == 50:
            error = EnvError("of the test")
            error.lanes = [0]
            raise error

    monkeypatch.setattr(Training, "_prepare", watched)
    monkeypatch.setattr(Training, "_turn", fails)
    swept(tmp_path / "out", "CartPole-v1", "2", code=1)
    assert alive == [0, 0]
