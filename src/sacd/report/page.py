"""The experiment as one page that needs nothing else: report.html, with tables to sort and every run's curve.

The frame, its style and its script lie in page.html; here is what goes into it. All text from files is escaped.
"""

import base64
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template

import numpy as np

from sacd.config import to_dict
from sacd.report.aggregate import EXPLAINED, aggregate_rows, improvement_rows
from sacd.report.experiment import Block, Cell, Experiment
from sacd.report.panels import WINDOW, training
from sacd.report.read import POLICIES, Run
from sacd.report.results import FIGURES, INTRODUCTION, headlines, random_told
from sacd.report.results_table import HEAD, NOTE, number, rows
from sacd.report.scores import mean_sd

POINTS = 101  # of a run's small curve
WIDTH, HEIGHT = 200, 60  # its units
PLAIN = ("n/a", "no runs")


def page(found: Experiment, pictures: Mapping[str, str]) -> str:
    """The page, with the figures' SVG texts by name."""
    parts = [
        ("headline", "Headline", _table(headlines(found))),
        *((f"table-{i}", f"Table: {b.name}", _paper_table(b)) for i, b in enumerate(found.blocks)),
        ("figures", "Figures", "".join(_figure(text, pictures[name]) for name, text in FIGURES.items())),
        ("aggregates", "Over games", _aggregates(found)),
        ("runs", "Every run", "".join(_runs(block) for block in found.blocks)),
        ("seeds", "Every seed", _table(_seeds(found), sortable=True)),
        ("origin", "Where it comes from", "".join(map(_origin, found.blocks)) + _p(random_told(found))),
    ]
    links = "".join(f'<a href="#{name}">{html.escape(title)}</a>' for name, title, _ in parts)
    sections = (f'<section id="{n}"><h2>{html.escape(title)}</h2>{body}</section>' for n, title, body in parts)
    body = f"<h1>Results</h1>{_p(INTRODUCTION)}<nav>{links}</nav>{''.join(sections)}"
    frame = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return Template(frame).substitute(body=body)


def _p(text: str) -> str:
    return f'<p class="soft">{html.escape(text)}</p>'


def _table(told: Sequence[Sequence[str]], sortable: bool = False) -> str:
    """Rows of text, the head first."""
    heads = (f"<button>{html.escape(cell)}</button>" if sortable else html.escape(cell) for cell in told[0])
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in told[1:])
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    kind = ' class="sortable"' if sortable else ""
    return f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    kind = text.partition(" ")[0] if text.startswith(("inside", "above", "below")) else "none" if text in PLAIN else ""
    return f'<td class="{kind}">{html.escape(text)}</td>' if kind else f"<td>{html.escape(text)}</td>"


def _paper_table(block: Block) -> str:
    return _p(block.told() + ".") + _table([HEAD, *rows(block)], sortable=True) + _p(NOTE)


def _figure(text: str, svg: str) -> str:
    """As an image of its own, so that no name inside it meets another's."""
    data = base64.b64encode(svg.encode()).decode()
    text = html.escape(text)
    return f'<figure><img alt="{text}" src="data:image/svg+xml;base64,{data}"><figcaption>{text}</figcaption></figure>'


def _aggregates(found: Experiment) -> str:
    return _p(EXPLAINED) + _table(aggregate_rows(found), True) + _table(improvement_rows(found), True)


def _runs(block: Block) -> str:
    """Small curves, game by game, on the game's own scale."""
    shown = "".join(f'<div class="runs">{_curves(cell)}</div>' for cell in block.cells if cell.runs)
    told = f"Mean score of the last {WINDOW} episodes over agent steps; dashed: the final greedy mean."
    return f"<h3>{html.escape(block.name)}</h3>{_p(told)}{shown}"


def _curves(cell: Cell) -> str:
    steps = np.linspace(0, cell.runs[0].config.steps, POINTS)
    lines = [training(run, steps) for run in cell.runs]
    finals = [_means(run)[0] for run in cell.runs]
    every = np.concatenate([*lines, np.array(finals)])
    known = every[np.isfinite(every)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    drawn = zip(cell.runs, lines, finals, strict=True)
    return "".join(_curve(run, line, final, low, high) for run, line, final in drawn)


def _curve(run: Run, line: np.ndarray, final: float, low: float, high: float) -> str:
    def y(value: float) -> float:
        return HEIGHT * (1 - (value - low) / ((high - low) or 1))

    points = " ".join(
        f"{WIDTH * i / (POINTS - 1):.0f},{y(v):.1f}" for i, v in enumerate(line.tolist()) if np.isfinite(v)
    )
    level = f'<line x1="0" x2="{WIDTH}" y1="{y(final):.1f}" y2="{y(final):.1f}"/>' if np.isfinite(final) else ""
    end = f"greedy {number(final)}" if np.isfinite(final) else f"at step {run.reached:,}"
    told = f"{number(low)} to {number(high)}"
    name = html.escape(f"{run.path.resolve().name}: {told}")
    return (
        f'<div class="run"><b>{html.escape(run.game)}</b>seed {run.config.seed}'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{name}">'
        f'<title>{name}</title><polyline points="{points}"/>{level}</svg>'
        f'<span class="soft">{told}<br>{end}</span></div>'
    )


def _means(run: Run) -> list[float]:
    """The final mean of each policy; NaN before the end."""
    return [mean_sd(run.evaluation[policy]["scores"] if run.evaluation else [])[0] for policy in POLICIES]


def _seeds(found: Experiment) -> list[tuple[str, ...]]:
    told: list[tuple[str, ...]] = [
        ("game", "configuration", "seed", "greedy", "sampled", "step", "episodes in training")
    ]
    for block in found.blocks:
        for run in block.runs:
            count = str(len(run.episodes["step"]))
            means = map(number, _means(run))
            told.append((run.game, block.name, str(run.config.seed), *means, str(run.reached), count))
    return told


def _origin(block: Block) -> str:
    """Configuration, versions and commit."""
    facts = {"runs": f"{len(block.runs)} of {block.config.steps:,} agent steps"} | block.origin
    listed = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
    shared = {k: v for k, v in to_dict(block.config).items() if k not in ("env", "seed")}
    config, game = html.escape(json.dumps(shared, indent=1)), html.escape(block.runs[0].game)
    details = f"<details><summary>configuration ({game})</summary><pre>{config}</pre></details>"
    return f"<h3>{html.escape(block.name)}</h3><dl>{listed}</dl>{details}"
