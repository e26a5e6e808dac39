"""Scores as a Markdown table: one row a game and configuration, seeds together."""

import statistics
from collections.abc import Sequence

from sacd.report.groups import Group, grouped
from sacd.report.read import read_run
from sacd.runs import RunFolder

HEAD = ("Environment", "differs in", "steps", "seeds", "greedy", "sampled", "last 100 in training")
NAME = HEAD.index("differs in")


def table(folders: list[RunFolder]) -> str:
    """Markdown. Unfinished runs are shown as such, never averaged in silently."""
    groups = grouped([read_run(folder) for folder in folders])
    rows = [HEAD, *map(_row, groups)]
    if not any(group.name for group in groups):
        rows = [row[:NAME] + row[NAME + 1 :] for row in rows]
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text, the head first, as a Markdown table with aligned columns."""
    width = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in width) + "|", *lines[1:]])


def _row(group: Group) -> tuple[str, ...]:
    done, of = group.finished, len(group.runs)
    seeds = f"{len(done)}" if len(done) == of else f"{len(done)} of {of}"
    cells = []
    for policy in ("greedy", "sampled"):
        found = [run.evaluation[policy] for run in done if run.evaluation]
        cells.append(mean_sd([f["mean"] for f in found], found[0]["std"] if len(found) == 1 else None))
    # Runs under way are told only where there is no finished one: they are not at the same step.
    last = [float(r.episodes["score"][-100:].mean()) for r in done or group.runs if len(r.episodes["score"])]
    reached = min(run.reached for run in done or group.runs)
    steps = f"{group.config.steps}" if reached >= group.config.steps else f"{reached} of {group.config.steps}"
    return (group.game, group.name, steps, seeds, *cells, mean_sd(last))


def mean_sd(values: list[float], inner: float | None = None) -> str:
    """Mean, and the sample SD over seeds; for one seed that over its episodes, and said so."""
    if not values:
        return "n/a"
    mean = f"{statistics.fmean(values):.5g}"
    if len(values) > 1:
        return f"{mean} ± {statistics.stdev(values):.3g}"
    return f"{mean} (episodes ± {inner:.3g})" if inner is not None else mean
