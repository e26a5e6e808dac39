"""`sacd report`: the table on the screen, and tables and pictures in a folder."""

from pathlib import Path

from sacd.files import writing
from sacd.report.archive import keep
from sacd.report.charts import aggregate_bands, performance_profile, relative_performance, save
from sacd.report.experiment import Experiment, experiment
from sacd.report.figure import curve
from sacd.report.grid import curves
from sacd.report.page import page
from sacd.report.read import find, read_run
from sacd.report.results import results
from sacd.report.results_table import cells, every_score, latex, markdown
from sacd.report.table import table
from sacd.runs import RunFolder

DRAWN = {
    "paper_figure1": relative_performance,
    "paper_curves": curves,
    "paper_aggregates": aggregate_bands,
    "paper_profile": performance_profile,
}
WRITTEN = {
    "paper_table.md": markdown,
    "paper_table.tex": latex,
    "paper_table.csv": cells,
    "scores.csv": every_score,
    "results.md": results,
}


def write(paths: list[Path], out: Path | None, kept: Path | None) -> None:
    """Report on all runs found at or below the paths: into the folder given, the current one where several were.

    `kept`: where to archive the runs, if anywhere.
    """
    folders = find(paths)
    if kept:
        keep(folders, kept)
        print(f"archive {kept.resolve()}\n")
    write_all(folders, out or (paths[0] if len(paths) == 1 else Path()))


def write_all(folders: list[RunFolder], where: Path) -> None:
    """The table on the screen, and table and picture in a folder; runs of the paper's games also beside the paper."""
    text = table(folders)
    print(text)
    _write(where / "table.md", text + "\n")
    curve(folders, where / "curve.png")
    print(f"\ntable   {(where / 'table.md').resolve()}\ncurve   {(where / 'curve.png').resolve()}")
    found = experiment([read_run(folder) for folder in folders])
    if found.blocks:
        write_experiment(found, where)


def write_experiment(found: Experiment, where: Path) -> None:
    """Everything about the paper's experiment; on the screen its headline and where to look."""
    for name, draw in DRAWN.items():
        save(draw(found), where / name)
    for name, tell in WRITTEN.items():
        _write(where / name, tell(found))
    pictures = {name: (where / f"{name}.svg").read_text(encoding="utf-8") for name in DRAWN}
    _write(where / "report.html", page(found, pictures))
    print(f"results {(where / 'results.md').resolve()}\npage    {(where / 'report.html').resolve()}\n")
    for block in found.blocks:
        print(f"{block.name}: {block.told()}.")


def _write(path: Path, text: str) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
