"""The three panels of a game: score, entropy and temperature over agent steps."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from sacd import schedules
from sacd.report.groups import Group
from sacd.report.read import Run, smooth

WINDOW = 20  # episodes
GREY = "0.35"
PALE = 0.45
ROUND = (1, 2, 2.5, 5, 10)  # distances of ticks


def draw(axes: list[Axes], group: Group, colour: str) -> None:
    """One group of seeds: the mean over them, and their range."""
    score, entropy, alpha = axes
    grid = np.linspace(0, group.config.steps, 401)
    lines = np.array([training(run, grid) for run in group.runs])
    _band(score, grid, lines, colour)
    if len(group.runs) == 1:
        _dots(score, group.runs[0], colour)
    for policy, mark in (("greedy", "D"), ("sampled", "o")):
        means = [run.evaluation[policy]["mean"] for run in group.finished if run.evaluation]
        face = "none" if policy == "sampled" else colour
        if means:  # an empty line that is not clipped would upset the layout
            score.plot([group.config.steps] * len(means), means, mark, ms=6, mfc=face, color=colour, clip_on=False)
    for ax, key in ((entropy, "entropy_share"), (alpha, "alpha")):
        _band(ax, *_logged(group.runs, key), colour)


def target(group: Group) -> tuple[NDArray, NDArray] | None:
    """Steps, and the wanted entropy at them as a share of log|A|; None where none is wanted, or log|A| unknown."""
    config = group.config
    if config.alpha:
        return None
    scale, text = 1.0, config.target_entropy_ratio
    if config.target_entropy:
        text = config.target_entropy
        known = [m for run in group.runs for m in run.metrics if m.get("entropy") and m.get("entropy_share")]
        if not known:
            return None
        scale = known[0]["entropy_share"] / known[0]["entropy"]  # 1 / log|A|
    fractions = np.linspace(0, 1, 101)
    return fractions * config.steps, np.array([scale * schedules.value(text, f) for f in fractions])


def draw_targets(ax: Axes, groups: list[Group], colours: list[str]) -> None:
    """The wanted entropy: one line where all groups want the same, else one each in its colour."""
    wanted = [(found, colour) for group, colour in zip(groups, colours, strict=True) if (found := target(group))]
    alike = len(wanted) == len(groups) and all(np.array_equal(wanted[0][0], found) for found, _ in wanted)
    for (steps, shares), colour in wanted[:1] if alike else wanted:
        ax.plot(steps, shares, "--", lw=1, color=GREY if alike else colour, zorder=1)


def dress(axes: list[Axes], groups: list[Group], first: bool) -> None:
    """Titles, scales and ticks, once everything is drawn. `first`: the leftmost game."""
    score, entropy, alpha = axes
    score.set_title(groups[0].game, loc="left", fontsize=11, weight="bold", pad=17)
    score.text(0, 1.025, told(groups), transform=score.transAxes, fontsize=8, color=GREY)
    for ax, text in ((score, "raw score of an episode"), (entropy, "entropy / log |A|"), (alpha, "temperature α")):
        ax.set_xlim(0, max(group.config.steps for group in groups))
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelbottom=ax is alpha)
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
        ax.xaxis.set_major_formatter(FuncFormatter(tick))
        ax.yaxis.set_major_formatter(FuncFormatter(tick))
        ax.set_ylabel(text if first else "")
    alpha.set_xlabel("agent steps")
    entropy.set_ylim(0, 1.03)
    updated = any("alpha" in row for group in groups for run in group.runs for row in run.metrics)
    if updated:
        scale_temperature(alpha)
    for ax in () if updated else (entropy, alpha):
        _say(ax, "no update yet")
    if not any(len(run.episodes["step"]) for group in groups for run in group.runs):
        _say(score, "no episode yet")
    for ax in (score, alpha):
        if not np.isfinite(ax.dataLim.intervaly).all():  # nothing to read off
            ax.set_yticks([])


def told(groups: list[Group]) -> str:
    """Steps, seeds, and how many runs are not finished."""
    steps, counts = ({f(group) for group in groups} for f in (lambda g: g.config.steps, lambda g: len(g.runs)))
    length = " to ".join(f"{n:,}" for n in dict.fromkeys((min(steps), max(steps))))
    seeds = [sorted(run.config.seed for run in group.runs) for group in groups]
    if any(mine != seeds[0] for mine in seeds):
        who = " to ".join(str(n) for n in dict.fromkeys((min(counts), max(counts)))) + " seeds each"
    elif len(seeds[0]) == 1:
        who = f"seed {seeds[0][0]}"
    else:
        who = f"seeds {', '.join(map(str, seeds[0]))}" if len(seeds[0]) <= 5 else f"{len(seeds[0])} seeds"
    runs, done = sum(len(group.runs) for group in groups), sum(len(group.finished) for group in groups)
    return f"{length} steps, {who}" + (f" ({done} of {runs} finished)" if done < runs else "")


def scale_temperature(ax: Axes) -> None:
    """Logarithmic where the temperature moves by a decade or more, else linear and never narrower than a fifth."""
    low, high = ax.dataLim.intervaly
    if low > 0 and high >= 10 * low:
        ax.set_yscale("log")
        subs = (1, 2, 5) if high < 50 * low else (1, 3) if high < 1000 * low else (1,)
        ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=6))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        middle = (low + high) / 2
        half = max((high - low) / 2, 0.1 * abs(middle)) or 0.1
        ax.set_ylim(middle - 1.1 * half, middle + 1.1 * half)
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
    ax.yaxis.set_major_formatter(FuncFormatter(tick))


def tick(value: float, _: int | None = None) -> str:
    """A tick's label, whole in itself: 25k instead of 2.5 and a factor in the corner."""
    for size, unit in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):g}{unit}"
    return f"{value:g}"


def training(run: Run, grid: NDArray) -> NDArray:
    """The smoothed score, as far as the run has come."""
    scores = smooth(run.episodes["step"], run.episodes["score"], grid, WINDOW)
    return np.where(grid <= run.reached, scores, np.nan)


def _logged(runs: list[Run], key: str) -> tuple[NDArray, NDArray]:
    """A number of the logs: the steps of all rows, and a line for each run; NaN where it has none."""
    rows = [np.array([(m["step"], m[key]) for m in run.metrics if key in m]).reshape(-1, 2) for run in runs]
    steps = np.unique(np.concatenate([row[:, 0] for row in rows]))
    lines = [
        np.interp(steps, row[:, 0], row[:, 1], left=np.nan, right=np.nan) if len(row) else np.full(len(steps), np.nan)
        for row in rows
    ]
    return steps, np.array(lines)


def _dots(ax: Axes, run: Run, colour: str) -> None:
    """The episodes themselves: bold where there are few, faint where they would hide the line."""
    count = len(run.episodes["step"])
    strength = 1 / math.sqrt(max(count, 1))
    size, alpha = np.clip(70 * strength, 4, 9), np.clip(5 * strength, 0.2, 0.9)
    ax.plot(run.episodes["step"], run.episodes["score"], ".", ms=size, mew=0, alpha=alpha, color=colour)


def _band(ax: Axes, x: NDArray, lines: NDArray, colour: str) -> None:
    """Mean and range of the lines: pale where some of them are missing; where there is but one point, that point."""
    seen = ~np.isnan(lines).all(0)
    x, lines = x[seen], lines[:, seen]
    if not len(x):
        return
    mean, whole = np.nanmean(lines, 0), ~np.isnan(lines).any(0)
    for where, strength in ((whole, 1.0), (~whole, PALE)):  # two lines: a seed that ends makes no jump
        if where.any():
            mark = "o" if len(x) == 1 else ""
            ax.plot(x, np.where(where, mean, np.nan), color=colour, lw=1.8, alpha=strength, marker=mark, ms=5)
    if len(lines) > 1:
        ax.fill_between(x, np.nanmin(lines, 0), np.nanmax(lines, 0), color=colour, alpha=0.2, lw=0)


def _say(ax: Axes, text: str) -> None:
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", fontsize=9, color=GREY,
            bbox={"facecolor": "white", "edgecolor": "none"})  # fmt: skip
