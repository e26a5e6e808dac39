"""Runs that belong together, and what sets them apart: seeds of one game and configuration are a group."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sacd import presets
from sacd.config import FIELDS, Config
from sacd.errors import UsageError
from sacd.report.read import Run
from sacd.runs import FREE

KEPT = {"save_every", "log_every"}  # when it is written down
COMPARED = [name for name in FIELDS if name not in {"seed", *FREE, *KEPT}]  # how it is computed is no other experiment
FEW = 3  # fields that are listed as they are; more are told as a preset and what departs from it


@dataclass(frozen=True)
class Group:
    """Runs of one game that differ in nothing but their seed."""

    game: str
    name: str  # what sets it apart from the other groups of its game; "" where it is the only one
    runs: list[Run]

    @property
    def config(self) -> Config:
        return self.runs[0].config

    @property
    def finished(self) -> list[Run]:
        return [run for run in self.runs if run.evaluation]


def grouped(runs: list[Run]) -> list[Group]:
    """Groups by game, and within a game by the values in which they differ."""
    games: dict[str, dict[tuple, list[Run]]] = defaultdict(lambda: defaultdict(list))
    require_different(runs)
    for run in runs:
        games[run.game][values_of(run.config, COMPARED)].append(run)
    found = []
    for game, members in sorted(games.items()):
        fields = [f for f, *seen in zip(COMPARED, *members, strict=True) if len(set(seen)) > 1]
        for mine in sorted(members.values(), key=lambda mine: _order(mine[0].config, fields)):
            found.append(Group(game, describe(mine[0].config, fields), sorted(mine, key=lambda r: r.config.seed)))
    return found


def require_different(runs: list[Run]) -> None:
    """Refuse copies: one run twice is not two seeds."""
    seen: dict[tuple, Run] = {}
    for run in runs:
        key = (run.game, run.config.seed, values_of(run.config, COMPARED))
        if key in seen:
            raise UsageError(
                f"{seen[key].path} and {run.path} are the same run: {run.game}, seed {run.config.seed}, and equal in "
                "all else. Name one of them."
            )
        seen[key] = run


def describe(config: Config, fields: list[str]) -> str:
    """These fields of a configuration in the fewest words that leave none out."""
    told, departures = _nearest(config, fields)
    listed = ", ".join(f"{f} {_text(getattr(config, f))}" for f in departures)
    return " but ".join(part for part in (told, listed) if part)


def _nearest(config: Config, fields: list[str]) -> tuple[str, list[str]]:
    """The preset that has most of these fields' values, and those it has not; for few fields all of them."""
    told, departures = "", fields
    for preset in presets.PRESETS if len(fields) > FEW else ():
        other = [
            f for f in fields if getattr(config, f) != presets.values(preset, config.env).get(f, FIELDS[f].default)
        ]
        if len(other) < len(departures):
            told, departures = f"as {preset}", other
    return told, departures


def _order(config: Config, fields: list[str]) -> tuple:
    """Presets as they are first, then by the values."""
    return (len(_nearest(config, fields)[1]), *values_of(config, fields))


def values_of(config: Config, fields: list[str]) -> tuple:
    return tuple(getattr(config, f) for f in fields)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value) if value != "" else "not set"
