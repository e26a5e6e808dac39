"""Progress for people: a live bar on a terminal, a plain line now and then elsewhere, one sentence for an error."""

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal


class Bar:
    """A bar with steps a second and time left, and the newest numbers under way."""

    def __init__(self, title: str, total: int, done: int = 0, unit: str = "steps"):
        self.console = Console(stderr=True, highlight=False)
        self.title, self.total, self.unit, self.done = title, total, unit, done
        self.first = (time.monotonic(), done)
        self.last = 0.0
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.fields[news]}"),
        )  # fmt: skip
        self.live = Progress(*columns, console=self.console) if self.console.is_terminal else None

    def __enter__(self) -> "Bar":
        if self.live:
            self.live.start()
            self.task = self.live.add_task(self.title, total=self.total, completed=self.done, rate="", news="")
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            self.live.stop()

    def note(self, text: str) -> None:
        """A sentence that stays on the screen."""
        self._say(text)

    def step(self, step: int, rows: list[dict[str, Any]]) -> None:
        """A row of each run is new."""
        self.advance(step, numbers(rows[0]) + (f"  ({len(rows)} runs)" if len(rows) > 1 else ""))

    def advance(self, done: int, news: str = "") -> None:
        """So much of the total is done."""
        now = time.monotonic()
        rate = (done - self.first[1]) / max(now - self.first[0], 1e-9)
        if done == self.first[1]:
            self.first = (now, done)
        if self.live:
            self.live.update(self.task, completed=done, rate=f"{rate:.3g} {self.unit}/s", news=news)
        elif now - self.last >= PLAIN_EVERY or done >= self.total:
            self.last = now
            left = (self.total - done) / rate if rate > 0 else 0.0
            self._say(f"{self.title}: {done}/{self.total}  {rate:.3g} {self.unit}/s  left {left:.0f} s  {news}")

    def _say(self, text: str) -> None:
        try:
            self.console.print(text, markup=False, soft_wrap=True)
        except (BrokenPipeError, OSError):  # whoever read this has gone; training goes on
            self.console.quiet = True


def numbers(row: dict[str, Any]) -> str:
    """The numbers to watch, where they exist yet."""
    shown = (
        ("score_mean_100", "score {:.4g}"), ("critic_loss", "critic {:.3g}"), ("alpha", "alpha {:.3g}"),
        ("entropy_share", "entropy {:.0%} of max"),
    )  # fmt: skip
    return "  ".join(form.format(row[key]) for key, form in shown if key in row)


def say(text: str) -> None:
    """A result, on standard output."""
    print(text)


def complain(text: str) -> None:
    """An error or warning, on standard error."""
    print(f"sacd: {text}", file=sys.stderr)
