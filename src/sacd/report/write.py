"""`sacd report`: the table on the screen, and table and picture in a folder."""

from pathlib import Path

from sacd.files import storage_error
from sacd.report.figure import curve
from sacd.report.read import find
from sacd.report.table import table
from sacd.runs import RunFolder


def write(paths: list[Path], out: Path | None) -> None:
    """Report on all runs found at or below the paths: into the folder given, the current one where several were."""
    write_all(find(paths), out or (paths[0] if len(paths) == 1 else Path()))


def write_all(folders: list[RunFolder], where: Path) -> None:
    """The table on the screen, and table and picture of these runs in a folder."""
    text = table(folders)
    print(text)
    try:
        where.mkdir(parents=True, exist_ok=True)
        (where / "table.md").write_text(text + "\n")
    except OSError as error:
        raise storage_error(error, where) from error
    curve(folders, where / "curve.png")
    print(f"\ntable   {(where / 'table.md').resolve()}\ncurve   {(where / 'curve.png').resolve()}")
