"""A run's folder: who may write it, whether it is this run at all, and what a process that died left in it."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from sacd import config, runs
from sacd.cli import main
from sacd.errors import LockedError, ResourceError
from sacd.runs import RunFolder
from tiny import CARTPOLE, Crash, broken_off, listing, results, same_results, words


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"gamma": 0.9}, "--gamma 0.99 there, 0.9 asked"),
        ({"seed": 1, "steps": 900}, "--seed 0 there, 1 asked; --steps 600 there, 900 asked"),
    ],
)
def test_another_configuration_is_refused(run, values, said, capsys):
    """A folder of a run with other values is exit code 2, naming each value, and is not touched."""
    broken_off(run)
    before = listing(run)
    assert main(words("CartPole-v1", run, **(CARTPOLE | values))) == 2
    assert said in capsys.readouterr().err
    assert listing(run) == before


def test_a_folder_of_something_else_is_refused(run, capsys):
    """A folder with files of the user's is not written to."""
    run.mkdir()
    (run / "thesis.tex").write_text("words")
    assert main(words("CartPole-v1", run)) == 2
    assert "holds no run" in capsys.readouterr().err
    assert [p.name for p in run.iterdir()] == ["thesis.tex"]


def test_a_finished_run_is_left_alone(run, capsys):
    """The same command once more says that the run is finished, shows its table, and changes no file."""
    command = words("CartPole-v1", run, **CARTPOLE)
    assert main(command) == 0

    def state() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in (run, *run.rglob("*"))}

    before = state()
    capsys.readouterr()
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "is finished" in said and "| CartPole-v1 " in said
    assert state() == before


def test_scores_half_written_are_played_again(run, whole, monkeypatch):
    """A process that died while it wrote the scores has not finished the run: the next one plays them again."""
    command, opened = words("CartPole-v1", run, **CARTPOLE), Path.open

    def die(path: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        file = opened(path, mode, *more, **named)
        if "w" in mode and "evaluation" in path.name:
            file.close()
            raise Crash
        return file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", die)
        with pytest.raises(Crash):
            main(command)
    assert main(command) == 0
    same_results(results(run), whole)


def test_what_cannot_be_written_is_a_resource(tmp_path):
    """A run below a file is exit code 5, not a traceback."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(ResourceError):
        RunFolder(tmp_path / "file" / "run").claim(config.make("CartPole-v1", "classic"))


def test_one_process_at_a_time(tmp_path):
    """A folder that is claimed is refused to others, naming the holder, until it is released; then it is free."""
    chosen = config.make("CartPole-v1", "classic")
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    first.claim(chosen)
    with pytest.raises(LockedError, match=f"in use by process {os.getpid()} on "):
        second.claim(chosen)
    first.release()
    assert not (tmp_path / "run.pid").exists()
    second.claim(chosen)
    second.release()


def test_the_record_says_what_ran(tmp_path):
    """config.json holds the whole configuration, the versions, and the commit."""
    chosen = config.make("CartPole-v1", "classic", hidden=(7, 5), seed=3)
    folder = RunFolder(tmp_path)
    folder.claim(chosen)
    folder.release()
    assert folder.config() == chosen
    record = json.loads((tmp_path / "config.json").read_text())
    assert record["versions"] == runs.versions() and record["versions"]["torch"][0].isdigit()
    assert re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?|unknown", record["commit"])


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", '{"config": 3}', '{"config": []}'])
def test_a_record_that_is_none(tmp_path, text, capsys):
    """A folder whose config.json is empty or strange is exit code 4 for whoever wants to read it."""
    (tmp_path / "config.json").write_text(text)
    for command in ("evaluate", "report"):
        assert main([command, str(tmp_path)]) == 4
        assert str(tmp_path) in capsys.readouterr().err


def test_an_account_of_an_error_does_not_make_a_folder_unusable(tmp_path):
    """A run that failed before its configuration was written may begin again."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "error.log").write_text("disk full")
    folder = RunFolder(tmp_path / "run")
    folder.check(config.make("CartPole-v1", "classic"))
    folder.claim(config.make("CartPole-v1", "classic"))
    folder.release()
