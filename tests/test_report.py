"""Tables and pictures of runs, from files written by hand: the numbers are the files', and nothing is hidden."""

import json
import os
import statistics
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sacd import config
from sacd.cli import main
from sacd.envs import names
from sacd.errors import CheckpointError
from sacd.report import read
from sacd.report.groups import describe
from sacd.report.table import mean_sd
from sacd.runs import RunFolder

GREEDY = '{"greedy": {"mean": 1, "std": null, "scores": [1]}, "sampled": '
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
        scores = SCORES[seed]
        found = {"mean": statistics.fmean(scores), "std": statistics.stdev(scores), "scores": scores}
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
            ["CartPole-v1", "hidden 256,256", "20000", "3", both, both, "100.5 ± 1"],
            ["CartPole-v1", "hidden 512", "20000", "1", *["3 (episodes ± 2.65)"] * 2, "99.5"],
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


def test_what_sets_configurations_apart_is_named(tmp_path, capsys):
    """Where a game has several configurations, the fields that differ and their values stand in the table."""
    for gamma in (0.99, 0.5, 0.9):
        write_run(tmp_path / f"g{gamma}", gamma=gamma, alpha="0.2" if gamma == 0.5 else "")
    write_run(tmp_path / "pong", env="ALE/Pong-v5")
    assert main(["report", str(tmp_path)]) == 0
    assert [row[:2] for row in cells(capsys.readouterr().out)] == [
        ["CartPole-v1", "gamma 0.5, alpha 0.2"],
        ["CartPole-v1", "gamma 0.9, alpha not set"],
        ["CartPole-v1", "gamma 0.99, alpha not set"],
        ["Pong", ""],
    ]


def test_many_differences_are_told_as_presets():
    """`paper` and `author` differ in eight fields: each is named, with what departs from it."""
    paper, author = (config.make("ALE/Pong-v5", preset) for preset in ("paper", "author"))
    fields = [*config.PRESETS["author"], "gamma"]
    assert [describe(c, fields) for c in (paper, author)] == ["as paper", "as author"]
    assert describe(config.changed(author, gamma=0.5, noop_max=30), fields) == "as author but noop_max 30, gamma 0.5"
    assert describe(author, ["tie_init", "noop_max"]) == "tie_init true, noop_max 0"


def test_where_the_report_goes(tmp_path, monkeypatch):
    """Into the one folder given; into the current one where several were; --out overrides."""
    for name in ("runs/a", "runs/b", "here/x"):
        write_run(tmp_path / name, int(name == "runs/b"))
    monkeypatch.chdir(tmp_path / "here")

    def reports() -> set[str]:
        found = {str(p.parent.relative_to(tmp_path)) for p in tmp_path.rglob("curve.png")}
        assert found == {str(p.parent.relative_to(tmp_path)) for p in tmp_path.rglob("table.md")}
        return found

    assert main(["report", "../runs", "--out", "../out"]) == 0
    assert reports() == {"out"}
    assert main(["report", "../runs"]) == 0
    assert reports() == {"out", "runs"}
    assert main(["report", "../runs/a", "../runs/b"]) == 0
    assert reports() == {"out", "runs", "here"}


def test_unfinished_runs_of_a_sweep_are_counted(tmp_path, capsys):
    """Every game says how many of its runs have scores; those under way enter no mean of finished ones."""
    for env, done in (("ALE/Pong-v5", 1), ("ALE/Qbert-v5", 0), ("ALE/Alien-v5", 2)):
        for seed in (0, 1):
            write_run(tmp_path / f"{names.short(env)}_{seed}", seed, finished=seed < done, env=env)
    assert main(["report", str(tmp_path)]) == 0
    rows = {row[0]: (row[2], row[-1]) for row in cells(capsys.readouterr().out)}
    both = "100 ± 0.707"
    assert rows == {"Alien": ("2", both), "Pong": ("1 of 2", "99.5"), "Qbert": ("0 of 2", both)}


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("evaluation.json", '{"policy": 1}'),
        ("evaluation.json", GREEDY + '{"mean": "high", "std": 1, "scores": [1]}}'),
        ("evaluation.json", GREEDY + "3}"),
        ("evaluation.json", GREEDY + '{"mean": 1, "std": 1}}'),
        ("evaluation.json", GREEDY + '{"mean": 1, "std": 1, "scores": []}}'),
        ("evaluation.json", GREEDY + '{"mean": 1, "std": 1, "scores": [1, "2"]}}'),
        ("evaluation.json", GREEDY + '{"mean": 1, "std": 1, "scores": [1, 2]}}'),
        ("episodes.jsonl", '{"step": 5, "length": 5}\n'),
        ("episodes.jsonl", '{"step": 5, "score": NaN, "length": 5}\n'),
        ("episodes.jsonl", "7\n"),
        ("episodes.jsonl", 'what\n{"step": 5, "score": 1, "length": 5}\n'),
        ("metrics.jsonl", '{"alpha": 1}\n'),
        ("metrics.jsonl", '{"step": 5, "alpha": "high"}\n'),
    ],
)
def test_damage_that_is_still_json_is_an_error(tmp_path, capsys, name, text):
    """Files without the numbers they must have are one sentence that names the file, and exit code 4."""
    run = write_run(tmp_path / "run")
    (run / name).write_text(text)
    assert main(["report", str(run)]) == 4
    said = capsys.readouterr().err
    assert name in said and str(run) in said and "Traceback" not in said and said.count("\n") == 1


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


@pytest.mark.parametrize(
    ("values", "inner", "shown"),
    [([], None, "n/a"), ([2.0], None, "2"), ([2.0], 0.5, "2 (episodes ± 0.5)"), ([1.0, 3.0], None, "2 ± 1.41")],
)
def test_mean_sd(values, inner, shown):
    """Means with the sample SD over seeds; one seed has none of its own."""
    assert mean_sd(values, inner) == shown
