"""Learning curves and the temperature's story, as a picture."""

from collections import defaultdict
from pathlib import Path

import matplotlib
import numpy as np

from sacd.files import storage_error
from sacd.report.read import Run, read_run, smooth
from sacd.report.table import group_key
from sacd.runs import RunFolder

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

WINDOW = 20  # episodes


def curve(folders: list[RunFolder], path: Path) -> None:
    """Score, entropy and temperature over agent steps, a column a game: the mean over seeds, and their range."""
    games: dict[str, list[Run]] = defaultdict(list)
    for run in map(read_run, folders):
        games[run.game].append(run)
    size = (max(6.4, 4.2 * len(games)), 8.4)
    figure, axes = plt.subplots(
        3, len(games), figsize=size, sharex="col", squeeze=False, layout="constrained", height_ratios=(2, 1, 1)
    )
    for column, (game, runs) in enumerate(sorted(games.items())):
        groups: dict[str, list[Run]] = defaultdict(list)
        for run in runs:
            groups[group_key(run)].append(run)
        for colour, members in enumerate(groups.values()):
            _draw(list(axes[:, column]), members, f"C{colour}")
        _dress(list(axes[:, column]), game, runs, first=column == 0)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise storage_error(error, path) from error
    finally:
        plt.close(figure)


def _draw(axes: list[Axes], runs: list[Run], colour: str) -> None:
    """One group of seeds."""
    grid = np.linspace(0, runs[0].config.steps, 400)
    scores = np.array([smooth(r.episodes["step"], r.episodes["score"], grid, WINDOW) for r in runs])
    label = f"{len(runs)} seeds, mean and range" if len(runs) > 1 else f"seed {runs[0].config.seed}"
    _band(axes[0], grid, scores, colour, f"training, last {WINDOW} episodes ({label})")
    if len(runs) == 1:
        axes[0].plot(runs[0].episodes["step"], runs[0].episodes["score"], ".", ms=2, alpha=0.25, color=colour)
    for policy, mark in (("greedy", "D"), ("sampled", "o")):
        means = [r.evaluation[policy]["mean"] for r in runs if r.evaluation]
        at = [r.config.steps for r in runs if r.evaluation]
        axes[0].plot(at, means, mark, ms=6, mfc="none" if policy == "sampled" else colour, color=colour, clip_on=False,
                     label=f"evaluated, {policy}" if means else None)  # fmt: skip
    for ax, key in ((axes[1], "entropy_share"), (axes[2], "alpha")):
        rows = [[(m["step"], m[key]) for m in r.metrics if key in m] for r in runs]
        lines = [_on_grid(grid, np.array(row)) for row in rows if row]
        if lines:
            _band(ax, grid, np.array(lines), colour, None)


def _on_grid(grid: np.ndarray, row: np.ndarray) -> np.ndarray:
    return np.interp(grid, row[:, 0], row[:, 1], left=np.nan, right=np.nan)


def _band(ax: Axes, x: np.ndarray, lines: np.ndarray, colour: str, label: str | None) -> None:
    seen = ~np.isnan(lines).all(0)
    x, lines = x[seen], lines[:, seen]
    if len(x):
        ax.plot(x, np.nanmean(lines, 0), color=colour, lw=1.8, label=label)
        if len(lines) > 1:
            ax.fill_between(x, np.nanmin(lines, 0), np.nanmax(lines, 0), color=colour, alpha=0.2, lw=0)


def _dress(axes: list[Axes], game: str, runs: list[Run], first: bool) -> None:
    score, entropy, alpha = axes
    score.set_title(game)
    if score.get_legend_handles_labels()[0]:
        score.legend(fontsize=7, loc="upper left", framealpha=0.6)
    entropy.set_ylim(0, 1.03)
    alpha.set_yscale("log")
    alpha.set_xlabel("agent steps")
    if first:
        score.set_ylabel("raw score of an episode")
        entropy.set_ylabel("entropy / log |A|")
        alpha.set_ylabel("temperature α")
    for ax in axes:
        ax.set_xlim(0, max(r.config.steps for r in runs))
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
