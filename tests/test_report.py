"""Tables and pictures of runs, from files written by hand: the numbers are the files', and nothing is hidden."""

import json
import math
import os
import statistics
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sacd import config
from sacd.cli import main
from sacd.errors import CheckpointError
from sacd.report import read
from sacd.report.table import mean_sd
from sacd.runs import RunFolder

SCORES = {0: [1.0, 2.0, 6.0], 1: [4.0, 4.0, 7.0], 2: [0.0, 0.0, 0.0]}


def write_run(place: Path, seed: int = 0, finished: bool = True, env: str = "CartPole-v1", **values: Any) -> Path:
    """A run's folder as a training leaves it."""
    chosen = config.make(env, "classic", seed=seed, **({"steps": 20_000} | values))
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps({"config": config.to_dict(chosen), "versions": {}, "commit": "x"}))
    rows = [{"step": 100 * (i + 1), "lane": 0, "score": float(i + seed), "length": 100} for i in range(150)]
    (place / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"step": 500 * (i + 1), "updates": i, "alpha": 0.1, "entropy_share": 0.5} for i in range(30)]
    (place / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if finished:
        found = {
            "mean": statistics.fmean(SCORES[seed]), "std": statistics.stdev(SCORES[seed]), "scores": SCORES[seed]
        }  # fmt: skip
        (place / "evaluation.json").write_text(json.dumps({"greedy": found, "sampled": found}))
    return place


def cells(said: str) -> list[list[str]]:
    """The rows of the Markdown table, without its head."""
    lines = [line for line in said.splitlines() if line.startswith("| ")]
    assert len({len(line) for line in lines}) == 1, "the columns are not aligned"
    return [[c.strip() for c in line.strip("|").split("|")] for line in lines[1:]]


def size(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_one_run(tmp_path, capsys):
    """One finished run: its evaluation with the spread over episodes, said so, the mean of its last 100 episodes."""
    run = write_run(tmp_path / "run")
    assert main(["report", str(run)]) == 0
    said = capsys.readouterr().out
    assert cells(said) == [["CartPole-v1", "20000", "1", *["3 (episodes ± 2.65)"] * 2, "99.5"]]
    assert (run / "table.md").read_text().strip() in said
    assert min(size(run / "curve.png")) > 400


def test_seeds_stand_together(tmp_path, capsys):
    """Runs that differ by their seed alone are a row: the mean and sample SD of their means."""
    runs = [write_run(tmp_path / "all" / str(s), s) for s in (0, 1)]
    write_run(tmp_path / "all" / "wide", hidden=(512,))
    write_run(tmp_path / "all" / "threads", 2, threads=7)  # how it is computed makes no other experiment
    assert main(["report", str(tmp_path / "all"), "--out", str(tmp_path / "out")]) == 0
    rows = cells(capsys.readouterr().out)
    means = [statistics.fmean(s) for s in SCORES.values()]
    both = f"{statistics.fmean(means):.5g} ± {statistics.stdev(means):.3g}"
    assert sorted(rows) == sorted(
        [
            ["CartPole-v1", "20000", "3", both, both, "100.5 ± 1"],
            ["CartPole-v1", "20000", "1", *["3 (episodes ± 2.65)"] * 2, "99.5"],
        ]
    )
    assert size(tmp_path / "out" / "curve.png") and (tmp_path / "out" / "table.md").exists()
    assert all(not (run / "curve.png").exists() for run in runs)


def test_an_unfinished_run_is_shown_as_such(tmp_path, capsys):
    """A run without scores counts as missing: `1 of 2` seeds, and n/a where there is none at all."""
    write_run(tmp_path / "a", 0)
    write_run(tmp_path / "b", 1, finished=False)
    assert main(["report", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path)]) == 0
    assert cells(capsys.readouterr().out)[0][2:4] == ["1 of 2", "3 (episodes ± 2.65)"]
    assert main(["report", str(tmp_path / "b")]) == 0
    assert cells(capsys.readouterr().out)[0][2:5] == ["0 of 1", "n/a", "n/a"]
    assert size(tmp_path / "b" / "curve.png")


def test_a_run_that_has_just_begun(tmp_path, capsys):
    """A folder with nothing but its configuration is reported too."""
    run = write_run(tmp_path / "run", finished=False)
    (run / "episodes.jsonl").unlink()
    (run / "metrics.jsonl").unlink()
    assert main(["report", str(run)]) == 0
    assert cells(capsys.readouterr().out)[0][2:] == ["0 of 1", "n/a", "n/a", "n/a"]
    assert size(run / "curve.png")


def test_games_have_columns_of_their_own(tmp_path, capsys):
    """Two games are two rows, and the picture is wider."""
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", env="ALE/Pong-v5")]
    assert main(["report", *map(str, runs), "--out", str(tmp_path)]) == 0
    assert [row[0] for row in cells(capsys.readouterr().out)] == ["CartPole-v1", "Pong"]
    assert main(["report", str(runs[0])]) == 0
    assert size(tmp_path / "curve.png")[0] > size(runs[0] / "curve.png")[0]


def test_the_same_files_give_the_same_table_and_picture(tmp_path):
    """A report is a function of the files, to the byte."""
    run = write_run(tmp_path / "run")
    seen = []
    for _ in range(2):
        assert main(["report", str(run)]) == 0
        seen.append((run / "table.md").read_bytes() + (run / "curve.png").read_bytes())
    assert seen[0] == seen[1]


def test_a_row_half_written_is_left_out(tmp_path):
    """The last row of a log may still be under way."""
    run = write_run(tmp_path / "run")
    with (run / "episodes.jsonl").open("a") as file:
        file.write('{"step": 15100, "sco')
    assert len(read.read_run(RunFolder(run)).episodes["score"]) == 150


def test_damaged_scores_are_an_error(tmp_path, capsys):
    """An evaluation.json that is not whole is exit code 4, never a table without it."""
    run = write_run(tmp_path / "run")
    (run / "evaluation.json").write_text('{"greedy": ')
    assert main(["report", str(run)]) == 4
    assert "evaluation.json" in capsys.readouterr().err


def test_runs_are_found_below_folders(tmp_path):
    """A folder stands for the runs in it and one level further down; each run is taken once."""
    for name in ("a", "deep/b", "deep/c"):
        write_run(tmp_path / name)
    found = [f.path.name for f in read.find([tmp_path, tmp_path / "a"])]
    assert sorted(found) == ["a", "b", "c"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="holds no run"):
        read.find([tmp_path / "empty"])


def test_a_closed_pipe_is_no_error(tmp_path):
    """`sacd report … | head -0` ends quietly."""
    run = write_run(tmp_path / "run")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "sacd", "report", str(run)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_smooth():
    """At each grid step the mean of the last episodes that ended by then, nothing before the first."""
    steps, scores = np.array([10, 20, 20, 40]), np.array([1.0, 2.0, 3.0, 10.0])
    found = read.smooth(steps, scores, np.array([0, 9, 10, 20, 39, 40, 99]), window=2)
    np.testing.assert_array_equal(found, [math.nan, math.nan, 1.0, 2.5, 2.5, 6.5, 6.5])


@pytest.mark.parametrize(
    ("values", "inner", "shown"),
    [([], None, "n/a"), ([2.0], None, "2"), ([2.0], 0.5, "2 (episodes ± 0.5)"), ([1.0, 3.0], None, "2 ± 1.41")],
)
def test_mean_sd(values, inner, shown):
    """Means with the sample SD over seeds; one seed has none of its own."""
    assert mean_sd(values, inner) == shown
