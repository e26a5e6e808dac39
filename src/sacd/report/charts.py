"""The experiment's figures over games: relative performance (the paper's figure 1), aggregates, performance profile."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from sacd.files import storage_error
from sacd.report.aggregate import AUTHOR, Sample, samples, who
from sacd.report.experiment import Cell, Experiment
from sacd.report.figure import COLOURS
from sacd.report.panels import GREY, tick
from sacd.report.paper import FACTS
from sacd.report.read import POLICIES
from sacd.report.scores import AGGREGATES, interval, mean_sd, percent, profile, relative, resampled

PAPER = "0.6"  # the paper's bars
LINEAR = 1.0  # ±100 %: up to here the axis of figure 1 is linear, beyond it logarithmic
STEPS = (-1, -0.5, 0, 0.5, 1, 3, 10, 30, 100, 300)  # its ticks
ROOM = 1.7  # what its axis goes beyond the longest bar, for the number
NEAR = 0.05  # normalised score: up to here the profile's axis is linear, for most runs lie there
MARKS = (-1, -0.3, -0.1, -0.05, 0, 0.05, 0.1, 0.3, 1, 3)  # its ticks
DENSITY = 120  # dots an inch


def save(figure: Figure, path: Path) -> None:
    """As PNG and as SVG, the same bytes from the same figure."""
    try:
        figure.savefig(path.with_suffix(".png"), dpi=DENSITY)
        with rc_context({"svg.hashsalt": "sacd"}):
            figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    except OSError as error:
        raise storage_error(error, path) from error


def colours(found: Experiment) -> dict[str, str]:
    """Each block's colour, the same in all figures."""
    return {block.name: COLOURS[i % len(COLOURS)] for i, block in enumerate(found.blocks)}


def relative_performance(found: Experiment) -> Figure:
    """Bars of (score - Rainbow) / Rainbow: the paper's and ours, in the paper's order of games."""
    shades = colours(found)
    bars = 1 + len(found.blocks)
    figure = Figure(figsize=(9.5, 1.4 + len(FACTS) * (0.12 + 0.16 * bars)), layout="constrained")
    ax = figure.add_subplot()
    place = np.arange(len(FACTS), dtype=float)
    width = 0.84 / bars
    paper = {game: relative(game, facts.sac_mean) for game, facts in FACTS.items()}
    _bars(ax, place - 0.42 + width / 2, width, [f"{percent(v)}" for v in paper.values()], list(paper.values()),
          color=PAPER, label="SAC, paper")  # fmt: skip
    for i, block in enumerate(found.blocks, 1):
        ours = [_relative(cell) for cell in block.cells]
        told = [
            cell.seeds if not cell.finished else percent(v) + _few(cell)
            for v, cell in zip(ours, block.cells, strict=True)
        ]
        _bars(
            ax,
            place - 0.42 + width * (i + 0.5),
            width,
            told,
            ours,
            color=shades[block.name],
            label=f"here, greedy: {block.name}",
        )
    _dress_relative(ax, [v for bar in ax.containers for v in getattr(bar, "datavalues", ()) if math.isfinite(v)])
    figure.legend(loc="outside upper left", ncols=1, fontsize=9, frameon=False)
    return figure


def _relative(cell: Cell) -> float:
    return relative(cell.game, mean_sd(cell.means("greedy"))[0])


def _few(cell: Cell) -> str:
    return f"  ({cell.seeds} seeds)" if "of" in cell.seeds else ""


def _bars(ax: Axes, place: Any, width: float, told: list[str], values: list[float], **style: Any) -> None:
    """Bars with their numbers at the ends; where there is no number, the reason at the axis."""
    ax.barh(place, values, 0.94 * width, **style)
    for y, value, text in zip(place, values, told, strict=True):
        left = value < 0  # a number that is not there is not
        where, colour = (value, "0.2") if math.isfinite(value) else (0, GREY)
        offset, side = ((-4, 0), "right") if left else ((4, 0), "left")
        style = {"textcoords": "offset points", "ha": side, "va": "center", "fontsize": 7.5, "color": colour}
        ax.annotate(text, (where, y), offset, **style)


def _dress_relative(ax: Axes, values: list[float]) -> None:
    ax.set_xscale("symlog", linthresh=LINEAR, linscale=1.2)
    ax.set_xlim(-1.6, ROOM * max(*values, LINEAR) + 1)
    ax.set_xticks([t for t in STEPS if t <= ax.get_xlim()[1]])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:+,.0f} %" if value else "0"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.tick_params(axis="x", labelsize=8)
    ax.set_yticks(range(len(FACTS)), list(FACTS), fontsize=9)
    ax.set_ylim(len(FACTS) - 0.45, -0.55)
    ax.axvline(0, color="0.2", lw=0.8)
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("(SAC - Rainbow) / Rainbow, 21 added to Pong; linear to ±100 %, logarithmic beyond", fontsize=9)


def aggregate_bands(found: Experiment) -> Figure:
    """Each aggregate with its 95 % interval, a line for each sample."""
    drawn = samples(found)
    figure = Figure(figsize=(12, 1.5 + 0.3 * len(drawn)), layout="constrained")
    axes = figure.subplots(1, len(AGGREGATES), sharey=True)
    shade = _shades(found)
    for y, sample in enumerate(drawn):
        for ax, (value, low, high) in zip(axes, sample.aggregates().values(), strict=True):
            ax.barh(y, high - low, 0.55, low, color=shade(sample), alpha=0.45, lw=0)
            ax.plot([value] * 2, [y - 0.28, y + 0.28], color=shade(sample), lw=2)
    for ax, name in zip(axes, AGGREGATES, strict=True):
        ax.set_title(name, fontsize=10)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.grid(axis="x", alpha=0.3)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(drawn)), [f"{s.who} · games {s.told}, seeds {s.seeds}" for s in drawn], fontsize=8.5)
    axes[0].set_ylim(len(drawn) - 0.5, -0.5)
    figure.supxlabel(
        "human-normalised score of final evaluations; bands: 95 % intervals, stratified bootstrap", fontsize=9
    )
    return figure


def performance_profile(found: Experiment) -> Figure:
    """The share of runs above each score, over the games whose author's seeds are known, with 95 % bands."""
    drawn = [sample for sample in samples(found) if sample.known]
    figure = Figure(figsize=(8.5, 5), layout="constrained")
    ax, shade = figure.add_subplot(), _shades(found)
    levels = np.unique(np.concatenate([seeds for sample in drawn for seeds in sample.games.values()]))
    levels = np.concatenate([levels[:1] - NEAR, levels])  # so that every line begins at 1
    for sample in drawn:
        games = list(sample.games.values())
        low, high = interval(profile(resampled(games), levels))
        style = "--" if sample.who.endswith("sampled") else "-"
        told: dict[str, Any] = {"color": shade(sample), "label": f"{sample.who} ({len(games)} games)"}
        ax.plot(levels, profile(games, levels), style, **told, drawstyle="steps-post")
        ax.fill_between(levels, low, high, color=shade(sample), alpha=0.15, lw=0, step="post")
    ax.set_xscale("symlog", linthresh=NEAR)
    ax.set_xlim(levels[0], levels[-1] * 1.1)
    ax.set_xticks([t for t in MARKS if levels[0] <= t <= levels[-1] * 1.1])
    ax.xaxis.set_major_formatter(FuncFormatter(tick))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(f"human-normalised score τ (linear to ±{NEAR:g}, logarithmic beyond)")
    ax.set_ylabel("share of runs that score above τ")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=8.5, frameon=False)
    return figure


def _shades(found: Experiment) -> Callable[[Sample], str]:
    """A sample's colour: its block's; grey for what is not ours to tune."""
    mine = {who(name, policy): shade for name, shade in colours(found).items() for policy in POLICIES}
    return lambda sample: mine.get(sample.who, "0.3" if sample.who == AUTHOR else "0.65")
