"""`sacd report --archive`: what is kept of finished runs, and that it is enough for every table and figure."""

import shutil

import pytest

from paperlike import write_experiment, write_random, write_run
from sacd.cli import main
from sacd.report.read import read_log
from sacd.runs import RunFolder

KEPT = {"config.json", "evaluation.json", "metrics.jsonl.zst", "episodes.jsonl.zst"}


def test_a_report_of_the_archive_is_the_report_of_the_runs(tmp_path):
    """All files of the report are the same to the byte, and so is an archive of the archive."""
    runs, kept, again = write_experiment(tmp_path / "runs"), tmp_path / "kept", tmp_path / "again"
    assert main(["report", str(runs), "--out", str(tmp_path / "a"), "--archive", str(kept)]) == 0
    shutil.rmtree(runs)
    assert main(["report", str(kept), "--out", str(tmp_path / "b"), "--archive", str(again)]) == 0
    for one, other in (("a", "b"), ("kept", "again")):
        found = [
            {p.relative_to(tmp_path / x): p.read_bytes() for p in (tmp_path / x).rglob("*.*")} for x in (one, other)
        ]
        assert found[0].keys() == found[1].keys() and len(found[0]) > 10
        assert [k for k in found[0] if found[0][k] != found[1][k]] == []


def test_only_small_files_are_kept(tmp_path):
    """No model, checkpoint or replay; logs are compressed; the random scores lie beside the runs."""
    runs, kept = write_experiment(tmp_path / "runs"), tmp_path / "kept"
    for name in ("model/x.safetensors", "checkpoints/step_1/x", "replay/0.zst", "run.lock", "error.log"):
        (runs / "Pong_s0" / name).parent.mkdir(parents=True, exist_ok=True)
        (runs / "Pong_s0" / name).write_text("large")
    assert main(["report", str(runs), "--out", str(tmp_path / "out"), "--archive", str(kept)]) == 0
    assert {p.name for p in kept.iterdir()} == {p.name for p in runs.iterdir()}
    assert {p.name for p in (kept / "Pong_s0").iterdir()} == KEPT
    assert {p.name for p in (kept / "Alien_s0").iterdir()} == KEPT - {"evaluation.json"}
    assert (kept / "random.json").read_bytes() == (runs / "random.json").read_bytes()
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert read_log(kept / "Pong_s0" / name) == (runs / "Pong_s0" / name).read_bytes() != b""


def test_runs_of_one_name_are_refused(tmp_path, capsys):
    """Two runs cannot share a folder of the archive; nothing is written then."""
    for seed in (0, 1):
        write_run(tmp_path / "runs" / str(seed) / "run", "Boxing", seed, 1.0)
    command = ["report", str(tmp_path / "runs"), "--archive", str(tmp_path / "kept")]
    assert main(command) == 2
    assert "have one name" in capsys.readouterr().err and not (tmp_path / "kept").exists()


def test_different_random_players_are_refused(tmp_path, capsys):
    """An archive has one random.json."""
    for name, score in (("a", 0.0), ("b", 1.0)):
        write_run(tmp_path / name / name, "Boxing", int(score), 1.0)
        write_random(tmp_path / name, {"Boxing": [[score]]})
    assert main(["report", str(tmp_path), "--archive", str(tmp_path / "kept")]) == 2
    assert "an archive holds one" in capsys.readouterr().err and not (tmp_path / "kept").exists()


def test_another_runs_folder_is_not_overwritten(tmp_path, capsys):
    """The same run is brought up to date, another one refused."""
    run, kept = write_run(tmp_path / "run", "Boxing", 0, None), tmp_path / "kept"
    command = ["report", str(run), "--archive", str(kept)]
    assert main(command) == 0
    assert not RunFolder(kept / "run").finished()
    shutil.rmtree(run)
    write_run(run, "Boxing", 0, 5.0)
    assert main(command) == 0
    assert RunFolder(kept / "run").finished()
    shutil.rmtree(run)
    write_run(run, "Boxing", 1, 5.0)
    assert main(command) == 2
    assert "holds another run" in capsys.readouterr().err and RunFolder(kept / "run").config().seed == 0


@pytest.mark.parametrize("damage", ["cut", "flip", "nonsense"])
def test_a_damaged_archive_is_an_error(tmp_path, capsys, damage):
    """A compressed log that is not whole is one sentence that names it, and exit code 4."""
    run, kept = write_run(tmp_path / "run", "Boxing", 0, 1.0), tmp_path / "kept"
    assert main(["report", str(run), "--archive", str(kept)]) == 0
    log = kept / "run" / "episodes.jsonl.zst"
    data = log.read_bytes()
    flipped = bytes([*data[:-2], data[-2] ^ 4, data[-1]])  # in the checksum: as bad as in what it is of
    log.write_bytes({"cut": data[:-9], "flip": flipped, "nonsense": b"what"}[damage])
    assert main(["report", str(kept)]) == 4
    said = capsys.readouterr().err
    assert "episodes.jsonl.zst" in said and said.count("\n") == 1
