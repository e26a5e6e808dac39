"""Finished experiments in a form that can be committed: each run's small files, the logs compressed.

What is kept is enough for every table and figure; models, checkpoints and replay are not.
"""

from pathlib import Path

import zstandard

from sacd.errors import UsageError
from sacd.files import replace_file, writing
from sacd.report.baseline import NAME, beside
from sacd.report.read import PACKED, read_log
from sacd.runs import RunFolder, same_run

WHOLE = ("config.json", "evaluation.json")
LEVEL = 19  # of compression


def keep(folders: list[RunFolder], where: Path) -> None:
    """Copy each run's small files to a folder of its name, and the random player's scores beside them."""
    _require_names(folders)
    random = {path.read_bytes(): path for path in beside(folder.path for folder in folders)}
    if len(random) > 1:
        raise UsageError(f"{' and '.join(map(str, random.values()))} differ: an archive holds one. Archive them apart.")
    for folder in folders:
        _keep_run(folder, where / folder.path.resolve().name)
    for data in random:
        _copy(data, where / NAME)


def _require_names(folders: list[RunFolder]) -> None:
    seen: dict[str, Path] = {}
    for folder in folders:
        name = folder.path.resolve().name
        if name in seen:
            raise UsageError(f"{seen[name]} and {folder.path} have one name: an archive needs two. Rename one of them.")
        seen[name] = folder.path


def _keep_run(folder: RunFolder, place: Path) -> None:
    """One run's files. A folder that holds another run is refused, the same run's is brought up to date."""
    if (place / "config.json").exists():
        same_run(RunFolder(place).config(), folder.config(), place)
    for name in WHOLE:
        if (folder.path / name).exists():
            _copy((folder.path / name).read_bytes(), place / name)
    for log in (folder.metrics, folder.episodes):
        data = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(read_log(log))
        _copy(data, place / (log.name + PACKED))


def _copy(data: bytes, path: Path) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
