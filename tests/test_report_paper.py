"""`sacd report` of the paper's games, from made-up runs: every number is the files', nothing missing is hidden."""

import csv
import io
import json
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

from paperlike import SCORES, write_experiment, write_random, write_run
from sacd.cli import main
from sacd.envs.names import PAPER_GAMES
from sacd.report import results_table
from sacd.report.experiment import Experiment, experiment
from sacd.report.paper import FACTS
from sacd.report.read import find, read_run
from sacd.report.results import FIGURES

FILES = ("paper_table.md", "paper_table.tex", "paper_table.csv", "scores.csv", "results.md", "report.html")
PICTURES = [f"{name}{kind}" for name in FIGURES for kind in (".png", ".svg")]


def read(place: Path) -> Experiment:
    """The experiment in a folder of runs."""
    return experiment([read_run(folder) for folder in find([place])])


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    return write_experiment(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def out(runs, tmp_path_factory) -> Path:
    """The report of the made-up experiment."""
    place = tmp_path_factory.mktemp("out")
    assert main(["report", str(runs), "--out", str(place)]) == 0
    return place


@pytest.fixture(scope="module")
def table(out) -> dict[tuple[str, str], dict[str, str]]:
    """paper_table.csv by configuration and game."""
    rows = csv.DictReader((out / "paper_table.csv").read_text().splitlines())
    return {(row["configuration"], row["game"]): row for row in rows}


def test_what_is_written(out):
    """Table, figures, results and page, beside the ordinary table and curve."""
    assert sorted(p.name for p in out.iterdir()) == sorted([*FILES, *PICTURES, "table.md", "curve.png"])
    for name in FIGURES:
        assert (out / f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert "<svg" in (out / f"{name}.svg").read_text() and "<dc:date>" not in (out / f"{name}.svg").read_text()


def test_the_screen_is_short(runs, tmp_path, capsys):
    """The table, where the files are, and a headline for each configuration."""
    assert main(["report", str(runs), "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    after = said.partition("\n\n")[2].splitlines()
    assert [line.split()[0] for line in after if line] == ["table", "curve", "results", "page", "paper", "author"]
    assert len(after) == 7 and str(tmp_path / "report.html") in said
    assert (
        "better than Rainbow in 2 of 3 games" in said
        and "(17 games without scores, 2 games with fewer than 5 seeds)" in said
    )


def test_other_runs_are_reported_as_before(tmp_path):
    """Without a run of the paper's games there is a table and a curve, and no more."""
    write_run(tmp_path / "runs" / "a", "Boxing", 0, 1.0)
    mine = write_run(tmp_path / "runs" / "b", "Pong", 0, 1.0)  # of an environment that is not Atari's
    (mine / "config.json").write_text((mine / "config.json").read_text().replace("ALE/Pong-v5", "Pong"))
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["curve.png", "table.md"]


def test_blocks_are_configurations(runs):
    """A block for each configuration, named by its preset and what departs from it, the largest first."""
    assert [block.name for block in read(runs).blocks] == ["paper but steps 20000", "author but steps 20000"]
    for block in read(runs).blocks:
        assert tuple(cell.game for cell in block.cells) == PAPER_GAMES


def test_every_game_has_a_row(table):
    """All twenty games in each configuration; those without runs or scores say so and have no numbers."""
    assert len(table) == 2 * len(PAPER_GAMES)
    name = "paper but steps 20000"
    for game in PAPER_GAMES:
        row, seeds = table[name, game], SCORES.get(game, [])
        greedy = [g for g, _ in seeds if g is not None]
        assert (int(row["seeds_finished"]), int(row["seeds_begun"])) == (len(greedy), len(seeds))
        assert float(row["sac_paper_mean"]) == FACTS[game].sac and float(row["rainbow_paper"]) == FACTS[game].rainbow
        if greedy:
            assert float(row["greedy_mean"]) == pytest.approx(statistics.fmean(greedy))
            assert float(row["greedy_sd"]) == pytest.approx(statistics.stdev(greedy))
        else:
            empty = ("greedy_mean", "greedy_sd", "sampled_mean", "relative_greedy", "author_low", "verdict")
            assert {row[k] for k in empty} == {""}
    assert table["author but steps 20000", "Pong"]["greedy_sd"] == ""  # one seed


def test_random_scores_stand_in_the_table(table):
    """Ours are the means of the seeds of random.json; a game it has not is empty."""
    row = table["paper but steps 20000", "Freeway"]
    assert [float(row[k]) for k in ("random_mean", "random_sd", "random_seeds")] == [
        0.75,
        pytest.approx(statistics.stdev([0.0, 1.5]), rel=1e-9),
        2,
    ]
    assert table["paper but steps 20000", "Alien"]["random_mean"] == ""


def test_the_markdown_table_counts_seeds(runs):
    """`3 of 5`, `0 of 5` and `no runs` where the paper has five seeds."""
    block = read(runs).blocks[0]
    assert {cell.game: cell.seeds for cell in block.cells if cell.runs} == {
        "Freeway": "5", "Pong": "2 of 5", "Assault": "2 of 5", "Alien": "0 of 5"
    }  # fmt: skip
    text = results_table.markdown(read(runs))
    assert sum("no runs" in line for line in text.splitlines()) == 16 + 19
    freeway = next(line for line in text.splitlines() if line.startswith("| Freeway"))
    greedy, sampled = ([pair[i] for pair in SCORES["Freeway"]] for i in (0, 1))
    assert f"| {statistics.fmean(greedy):.2f} ± {statistics.stdev(greedy):.2f} " in freeway
    assert f"| {statistics.fmean(sampled):.2f} ± {statistics.stdev(sampled):.2f} " in freeway


def test_every_score_is_written(out, runs):
    """scores.csv has each episode of each finished run and of the random player, once."""
    rows = list(csv.DictReader((out / "scores.csv").read_text().splitlines()))
    keys = [tuple(row[k] for k in ("game", "configuration", "seed", "policy", "episode")) for row in rows]
    finished = sum(g is not None for seeds in SCORES.values() for g, _ in seeds) + 1
    assert len(set(keys)) == len(rows) == finished * 2 * 3 + 6
    wanted = json.loads((runs / "Freeway_s1" / "evaluation.json").read_text())["greedy"]["scores"]
    mine = [r for r in rows if (r["game"], r["seed"], r["policy"]) == ("Freeway", "1", "greedy")]
    assert [float(r["score"]) for r in mine] == wanted
    assert [float(r["score"]) for r in rows if r["policy"] == "uniform" and r["game"] == "Pong"] == [-21.0, -20.0]


def test_results_are_whole(out):
    """results.md has the headline of paper and ours, verdicts, aggregates, origin; its figures are there."""
    text = (out / "results.md").read_text()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    told = {line[0]: line[1:] for line in lines if len(line) == 6}
    assert told["SAC, paper"][:4] == ["10 of 20 games", "-1 %", "+4330 %", "-99 %"]
    assert told["here: paper but steps 20000"][0] == "2 of 3 games"
    pictures = [part.partition(")")[0] for part in text.split("](")[1:]]
    assert pictures and all((out / name).exists() for name in pictures)
    assert "* inside: 1 (Freeway)" in text and "* above: 2 (Assault, Pong)" in text
    assert "c0 (4 runs)" in text and "torch: 2.11" in text and "2 games, 3 seeds, 6 episodes" in text


def test_latex_escapes(runs):
    """Nothing that LaTeX reads as a command comes from the files."""
    assert results_table.escape("a_b & 5 % ~ # ± \\x é") == r"a\_b \& 5 \% $\sim$ \# $\pm$ /x "


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex")
def test_latex_compiles(out, tmp_path):
    """paper_table.tex is a document by itself."""
    command = ["pdflatex", "-interaction=batchmode", "-halt-on-error", str(out / "paper_table.tex")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Overfull" not in (tmp_path / "paper_table.log").read_text()


def test_without_random_scores(tmp_path):
    """No random.json is no error: the column is empty, and it is said."""
    write_run(tmp_path / "a", "Pong", 0, -20.0)
    assert main(["report", str(tmp_path)]) == 0
    assert "no random.json" in (tmp_path / "results.md").read_text()


def test_without_a_score(tmp_path):
    """Runs that have just begun: the report is there, and says that nothing is finished."""
    run = write_run(tmp_path / "a", "Pong", 0, None)
    for name in ("episodes.jsonl", "metrics.jsonl"):
        (run / name).unlink()
    assert main(["report", str(tmp_path)]) == 0
    text = (tmp_path / "results.md").read_text()
    assert "no run is finished" in text and "* no score: 20" in text


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"games": 3}', '{"games": {"Pong": {}}}', '{"games": {"Pong": {"seeds": [[1, "x"]]}}}',
             '{"games": {"Pong": {"seeds": [[]]}}}', '{"games": {"Pong": {"seeds": [[1], [2]], "numbers": [3, 3]}}}'],
)  # fmt: skip
def test_damaged_random_scores_are_an_error(tmp_path, capsys, text):
    """One sentence that names the file, and exit code 4."""
    write_run(tmp_path / "a", "Pong", 0, -20.0)
    (tmp_path / "random.json").write_text(text)
    assert main(["report", str(tmp_path)]) == 4
    said = capsys.readouterr().err
    assert "random.json" in said and said.count("\n") == 1


def test_two_random_players_are_not_mixed(tmp_path, capsys):
    """Runs of one configuration beside different random.json are refused."""
    for name, score in (("a", 0.0), ("b", 1.0)):
        write_run(tmp_path / name / "run", "Pong", int(score), -20.0)
        write_random(tmp_path / name, {"Pong": [[score]]})
    assert main(["report", str(tmp_path)]) == 2
    assert "differs from another random.json in Pong" in capsys.readouterr().err


def test_each_configuration_has_its_own_random_player(tmp_path):
    """Two experiments under one folder: each table has the random scores that lie beside its runs."""
    for preset, score in (("paper", -20.0), ("author", -19.0)):
        write_run(tmp_path / preset / "run", "Pong", 0, -20.0, preset=preset)
        write_random(tmp_path / preset, {"Pong": [[score]]})
    found = {block.name.split()[0]: block.baseline.means("Pong") for block in read(tmp_path).blocks}
    assert found == {"paper": [-20.0], "author": [-19.0]}
    text = results_table.every_score(read(tmp_path))
    assert "Pong,random player,7,uniform,0,-19" in text  # of the first block by name
    assert "Pong,random player (paper but steps 20000),7,uniform,0,-20" in text


def test_what_a_preset_sets_in_one_game_makes_no_other_experiment(tmp_path):
    """The author's SpaceInvaders skips three frames; with four it is another configuration."""
    for game in ("SpaceInvaders", "Pong"):
        write_run(tmp_path / game, game, 0, 1.0, preset="author", steps=100_000)
    assert [block.name for block in read(tmp_path).blocks] == ["author"]
    write_run(tmp_path / "four", "SpaceInvaders", 0, 1.0, preset="author", steps=100_000, frame_skip=4)
    assert [block.name for block in read(tmp_path).blocks] == ["author", "author but frame_skip 4"]


def test_the_same_files_give_the_same_bytes(out, runs, tmp_path):
    """Every file of the report, to the byte."""
    assert main(["report", str(runs), "--out", str(tmp_path)]) == 0
    for name in (*FILES, *PICTURES):
        assert (out / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_package_data_is_found():
    """The figures of the paper lie in the package, each file with its source on top."""
    from importlib import resources

    files = [f for f in (resources.files("sacd.report") / "data").iterdir() if f.name.endswith(".csv")]
    assert len(files) == 3
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert text.startswith("# ") and ("arxiv" in text.lower() or "github.com" in text)
        assert len({len(row) for row in csv.reader(io.StringIO(text)) if not row[0].startswith("#")}) == 1
