"""The final games of trained runs: which policy is scored, and whose fault an error is."""

import json
import shutil
from pathlib import Path

import pytest

from sacd import evaluate, scoring
from sacd.cli import main
from sacd.errors import EnvError
from sacd.runs import RunFolder
from sacd.train import Training
from test_sweep import runs, swept
from tiny import CARTPOLE, results, same_results, shorten, words


def unscored(run: Path) -> RunFolder:
    (run / "evaluation.json").unlink()
    return RunFolder(run)


def test_an_older_policy_is_never_scored_as_the_final_one(run, whole, capsys):
    """Model and last checkpoint are damaged: the run goes on from the one before, to the same results."""
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    folder = unscored(run)
    for place in (folder.model, folder.saved_steps()[0]):
        shorten(place / "tensors.safetensors")
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    assert "goes on from its newest checkpoint" in capsys.readouterr().err
    same_results(results(run), whole)


def test_a_model_of_another_step_is_not_a_trained_run(run, whole):
    """A model that says an earlier step is not scored as it is."""
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    folder = unscored(run)
    assert scoring.trained(folder, folder.config())
    shutil.rmtree(folder.model)
    shutil.copytree(folder.saved_steps()[1], folder.model)
    assert not scoring.trained(folder, folder.config())


def test_one_damaged_run_costs_the_others_nothing(tmp_path, capsys):
    """Of three trained runs without scores one has lost model and checkpoints: the others are scored."""
    swept(tmp_path, "CartPole-v1", "3")
    folders = [unscored(path) for path in runs(tmp_path).values()]
    shorten(folders[1].model / "tensors.safetensors")
    shutil.rmtree(folders[1].checkpoints)
    swept(tmp_path, "CartPole-v1", "3", code=1)
    assert [folder.finished() for folder in folders] == [True, False, True]
    said = capsys.readouterr().err
    assert "1 run failed" in said and folders[1].path.name in said


@pytest.mark.parametrize(("lane", "blamed"), [(3, 0), (4, 1), (7, 1), (11, 2)])
def test_an_error_in_the_final_games_is_of_the_run_that_played(tmp_path, monkeypatch, lane, blamed):
    """Two policies of two lanes each are a run's; only it fails, and the others are scored without another step."""
    calls, play = [], evaluate.play_runs

    def broken(*given):
        calls.append(len(given[2]))
        if len(calls) == 1:
            error = EnvError("an emulator fell over")
            error.lanes = [lane]
            raise error
        return play(*given)

    monkeypatch.setattr(evaluate, "play_runs", broken)
    swept(tmp_path, "CartPole-v1", "3", code=1)
    folders = [RunFolder(path) for path in runs(tmp_path).values()]
    assert [folder.finished() for folder in folders] == [run != blamed for run in range(3)]
    assert "fell over" in (folders[blamed].path / "error.log").read_text()
    assert calls == [6, 4]
    monkeypatch.setattr(Training, "run", None)  # nothing is left to train
    swept(tmp_path, "CartPole-v1", "3")


def test_scores_name_their_step(run):
    """evaluation.json says what was scored."""
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    found = json.loads((run / "evaluation.json").read_text())
    assert (found["step"], found["greedy"]["episodes"], len(found["sampled"]["scores"])) == (600, 2, 2)
