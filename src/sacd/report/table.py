"""Scores as a Markdown table: one row a game and configuration, seeds together."""

import statistics
from collections import defaultdict

from sacd.report.read import Run, read_run
from sacd.runs import FREE, RunFolder

HEAD = ("Environment", "steps", "seeds", "greedy", "sampled", "last 100 in training")


def table(folders: list[RunFolder]) -> str:
    """Markdown. Unfinished runs are shown as such, never averaged in silently."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in map(read_run, folders):
        groups[group_key(run)].append(run)
    rows = [HEAD, *(_row(runs) for _, runs in sorted(groups.items()))]
    width = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, width, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in width) + "|", *lines[1:]])


def group_key(run: Run) -> str:
    """Runs that differ in nothing but their seed (and how they were computed)."""
    values = {k: v for k, v in run.record["config"].items() if k not in {"seed", *FREE}}
    return f"{run.game} {values}"


def _row(runs: list[Run]) -> tuple[str, ...]:
    done = [r for r in runs if r.evaluation]
    seeds = f"{len(done)}" if len(done) == len(runs) else f"{len(done)} of {len(runs)}"
    last = [float(r.episodes["score"][-100:].mean()) for r in runs if len(r.episodes["score"])]
    evaluated = [[r.evaluation[policy]["mean"] for r in done if r.evaluation] for policy in ("greedy", "sampled")]
    within = [
        done[0].evaluation[p]["std"] if len(done) == 1 and done[0].evaluation else None for p in ("greedy", "sampled")
    ]
    cells = [mean_sd(means, inner) for means, inner in zip(evaluated, within, strict=True)]
    return (runs[0].game, str(runs[0].config.steps), seeds, *cells, mean_sd(last))


def mean_sd(values: list[float], inner: float | None = None) -> str:
    """Mean, and the sample SD over seeds; for one seed that over its episodes, and said so."""
    if not values:
        return "n/a"
    mean = f"{statistics.fmean(values):.5g}"
    if len(values) > 1:
        return f"{mean} ± {statistics.stdev(values):.3g}"
    return f"{mean} (episodes ± {inner:.3g})" if inner is not None else mean
