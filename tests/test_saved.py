"""What checkpoints promise: a run goes on from the newest sound one as if nothing had happened, or says why not."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from sacd import checkpoint, config
from sacd.cli import main
from sacd.console import Bar
from sacd.runs import RunFolder
from sacd.signals import Stop
from sacd.train import Training
from tiny import (
    CARTPOLE,
    COMMON,
    Crash,
    broken_off,
    crash_at,
    flip,
    listing,
    newest,
    results,
    same_results,
    shorten,
    words,
)
from worlds import world


@pytest.mark.parametrize("step", [2, 98, 302, 450, 600])
def test_a_run_goes_on_as_if_nothing_had_happened(run, whole, step):
    """Broken off before, between and after its checkpoints, a run ends with the results of one that was not."""
    command = broken_off(run, step)
    assert newest(run) == (step - 2) // 100 * 100
    assert main(command) == 0
    same_results(results(run), whole)


def test_a_run_may_be_broken_off_again_and_again(run, whole):
    """Every interruption starts from what the last one left."""
    for step in (150, 210, 390, 512):
        broken_off(run, step)
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    same_results(results(run), whole)


DAMAGES = {
    "tensors flipped": ("checkpoints/step_000000000400/tensors.safetensors", flip),
    "tensors cut": ("checkpoints/step_000000000400/tensors.safetensors", shorten),
    "tensors gone": ("checkpoints/step_000000000400/tensors.safetensors", Path.unlink),
    "manifest cut": ("checkpoints/step_000000000400/manifest.json", shorten),
    "manifest gone": ("checkpoints/step_000000000400/manifest.json", Path.unlink),
    "replay flipped": ("replay/000000000400.zst", flip),
    "replay gone": ("replay/000000000400.zst", Path.unlink),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(run, whole, damage, capsys):
    """The one before it is taken, the damaged file is named, and the results are still those of an undisturbed run."""
    command = broken_off(run)
    name, change = DAMAGES[damage]
    change(run / name)
    assert main(command) == 0
    said = capsys.readouterr().err
    assert str(run / name) in said
    assert "The checkpoint before it is taken" in said
    assert "resumed at step 300." in said
    same_results(results(run), whole)


@pytest.mark.parametrize("change", [flip, Path.unlink])
def test_without_a_sound_checkpoint_nothing_is_changed(run, change, capsys):
    """If all are damaged the run is refused with exit code 4, and what is left of it stays as it is."""
    command = broken_off(run)
    for path in (run / "checkpoints").glob("*/tensors.safetensors"):
        change(path)
    before = listing(run)
    assert main(command) == 4
    said = capsys.readouterr().err
    assert "step_000000000400" in said and "step_000000000300" in said
    assert listing(run) == before


def test_a_full_disk_ends_the_run_and_loses_nothing(run, whole, monkeypatch, capsys):
    """When a save does not fit: exit code 5, the checkpoint before intact; with space again the run goes on."""
    command, sync, calls = words("CartPole-v1", run, **CARTPOLE), os.fsync, []

    def refuse(handle: int) -> None:
        calls.append(handle)
        if newest(run) == 300:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        assert main(command) == 5
    assert "the disk is full" in capsys.readouterr().err
    assert newest(run) == 300 and calls
    checkpoint.read(run / "checkpoints" / "step_000000000300")
    assert main(command) == 0
    same_results(results(run), whole)


def test_a_model_half_written_leaves_nothing_behind(run, whole, monkeypatch):
    """What a process that died while it wrote the model left is gone when the run is finished."""
    command, rename = words("CartPole-v1", run, **CARTPOLE), Path.rename

    def die(path: Path, target: Path) -> None:
        if Path(target).name == "model":
            raise Crash
        rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", die)
        patch.setattr(os, "getpid", lambda: 4_000_000)  # the process after it has another number
        with pytest.raises(Crash):
            main(command)
    assert main(command) == 0
    same_results(results(run), whole)
    assert not [p.name for p in run.iterdir() if p.name.startswith(".tmp")]


def test_a_log_shorter_than_remembered_is_not_filled_up(run):
    """Rows that a power failure took from a log are missing afterwards, not replaced by zero bytes."""
    command = broken_off(run)
    rows = (run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (run / "episodes.jsonl").write_bytes(b"".join(rows[:3]))
    assert main(command) in (0, 4)
    after = (run / "episodes.jsonl").read_bytes()
    assert after.startswith(b"".join(rows[:3]))
    assert b"\0" not in after


def test_an_environment_that_does_not_repeat_itself(run, capsys):
    """A run whose environment ignores its seed goes on, and says that it is not the same run bit for bit."""
    command = broken_off(run, env=world("Fickle"))
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "resumed at step 400." in said
    assert "not bit for bit" in said.replace("\n", " ")


def test_another_version_of_torch_is_told(run, monkeypatch, capsys):
    """Resumed with another torch or on another device a run goes on, and says that bits may change."""
    command = broken_off(run)
    command[command.index("--device") + 1] = "auto"
    monkeypatch.setattr(torch, "__version__", "9.9")
    assert main(command) == 0
    assert "-> 9.9)" in capsys.readouterr().err.partition("exact: no (torch ")[2]


def fleet(place: Path, seeds: list[int], stop_at: int = 0) -> list[RunFolder]:
    """Runs in lockstep, to their end or to a crash."""
    values = COMMON | {"hidden": (16,), "steps": 500, "eval_episodes": 1}
    folders = [RunFolder(place / str(s)) for s in seeds]
    configs = [config.make("CartPole-v1", "classic", seed=s, **values) for s in seeds]
    training = Training(configs, folders, Bar("test", 500))
    for folder in folders:
        folder.claim(training.config)
    with pytest.MonkeyPatch.context() as patch:
        if stop_at:
            crash_at(patch, stop_at)
        try:
            training.run(Stop())
        except Crash:
            assert stop_at
        finally:
            training.close()
            for folder in folders:
                folder.release()
    return folders


def models(folders: list[RunFolder]) -> list[bytes]:
    return [(f.model / "tensors.safetensors").read_bytes() + f.episodes.read_bytes() for f in folders]


def test_after_a_resume_only_new_slots_are_written(run):
    """A chunk begins with the slot before the last one's end, in every lane, whether the run was resumed between."""
    command = broken_off(run, CARTPOLE["steps"] - 50)  # resumed at 500
    heads = {500: checkpoint.read(run / "checkpoints/step_000000000500")[1]["replay"]["head"]}
    heads[400] = checkpoint.read(run / "checkpoints/step_000000000400")[1]["replay"]["head"]
    assert main(command) == 0
    facts = checkpoint.read(run / "checkpoints/step_000000000600")[1]
    heads[600] = facts["replay"]["head"]
    for step in (500, 600):
        name = f"replay/{step:012d}.zst"
        written = {k: facts["files"][name][k] for k in ("bytes", "sha256")}
        chunk = checkpoint.read_chunk(run / name, written)
        for lane, (before, now) in enumerate(zip(heads[step - 100], heads[step], strict=True)):
            assert chunk[f"{lane}.first"].tolist() == [before - 1]
            assert len(chunk[f"{lane}.frame"]) == len(chunk[f"{lane}.action"]) == now - before + 2


@pytest.mark.parametrize("lost", [False, True])
def test_a_fleet_goes_on_together(tmp_path, lost):
    """Runs in lockstep resume exactly, also where a crash between their saves left one a checkpoint behind."""
    alone = [models(fleet(tmp_path / "alone", [s])) for s in (0, 1)]
    folders = fleet(tmp_path / "fleet", [0, 1], stop_at=450)
    if lost:
        shutil.rmtree(folders[1].checkpoints / "step_000000000400")
    assert [[m] for m in models(fleet(tmp_path / "fleet", [0, 1]))] == alone


def test_numbers_that_are_not_finite_are_not_saved(run, monkeypatch, capsys):
    """A run whose weights are no numbers ends with exit code 6; the checkpoint before is sound."""
    update = Training._learn

    def poisoned(training: Training) -> None:
        update(training)
        if training.clock.step == 350:
            training.state.log_alpha.fill_(float("nan"))

    monkeypatch.setattr(Training, "_learn", poisoned)
    assert main(words("CartPole-v1", run, **CARTPOLE, log_every=600)) == 6  # no row tells of it before
    assert "not finite" in capsys.readouterr().err
    assert newest(run) == 300
    assert json.loads((run / "checkpoints/step_000000000300/manifest.json").read_text())["step"] == 300


def test_a_trained_run_needs_only_its_model(run, whole, capsys):
    """Its checkpoints are gone: the final games are played all the same, and nothing is trained again."""
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    shutil.rmtree(run / "checkpoints")
    (run / "evaluation.json").unlink()
    before = listing(run)
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    assert {k: v for k, v in listing(run).items() if k in before} == before
    found = json.loads((run / "evaluation.json").read_text())
    assert {k: found[k] for k in whole["evaluation"]} == whole["evaluation"]


@pytest.mark.parametrize("path", ["manifest.json", "../../config.json"])
def test_json_that_is_too_deep(run, path, capsys):
    """A file of brackets is damaged like any other."""
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    (run / "evaluation.json").unlink()
    (RunFolder(run).saved_steps()[0] / path).write_text("[" * 200_000)
    assert main(words("CartPole-v1", run, **CARTPOLE)) == (0 if path == "manifest.json" else 4)
