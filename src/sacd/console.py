"""Progress for people: a live bar on a terminal, a plain line now and then elsewhere, one sentence for an error."""

import contextlib
import sys
import time
from collections import deque
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

LIVE_EVERY, PLAIN_EVERY = 0.2, 10.0  # seconds: on a terminal, and elsewhere


class Terminal(Console):
    """Whoever read this may go: training goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class Bar:
    """A bar with steps a second and time left, and the newest numbers under way."""

    def __init__(self, title: str, total: int, unit: str = "steps", typical: int = 0):
        self.console = Terminal(stderr=True, highlight=False)
        self.title, self.total, self.unit, self.news = title, total, unit, ""
        self.typical = typical if typical < total else 0  # from here on the rate tells how long the rest will take
        self.progress = Progress(
            TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[left]}"), console=self.console,
        )  # fmt: skip
        self.line = Text(no_wrap=True, overflow="ellipsis")  # the news has a line of its own: terminals are narrow
        group = Group(self.progress, self.line)
        self.live = Live(group, console=self.console, refresh_per_second=5) if self.console.is_terminal else None
        # Rates are of the last seconds: learning is a hundred times slower than the random steps before it.
        self.marks: deque[tuple[float, int]] = deque(maxlen=50 if self.live else 3)

    def __enter__(self) -> "Bar":
        if self.live:
            self.live.start()
            self.task = self.progress.add_task(self.title, total=self.total, rate="", left="")
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            self.live.stop()

    def note(self, text: str) -> None:
        """A sentence that stays on the screen."""
        self._say(text)

    def rows(self, step: int, rows: list[dict[str, Any]]) -> None:
        """Each run has a new row of metrics."""
        self.news = numbers(rows)

    def tick(self, done: int) -> None:
        """So much of the total is done; said a few times a second at most."""
        now = time.monotonic()
        if not self.marks or self.marks[0][1] < self.typical <= done:  # what was before tells nothing
            self.marks.clear()
            self.marks.append((now, done))
        if now - self.marks[-1][0] >= (LIVE_EVERY if self.live else PLAIN_EVERY) or done >= self.total:
            begin, before = self.marks[0]
            self._show(done, (done - before) / max(now - begin, 1e-9))
            self.marks.append((now, done))

    def _show(self, done: int, rate: float) -> None:
        pace = f"{rate:,.0f} {self.unit}/s" if rate >= 100 else f"{rate:.3g} {self.unit}/s" if rate else ""
        left = f"left {clock((self.total - done) / rate)}" if rate and self.marks[0][1] >= self.typical else ""
        if self.live:
            self.progress.update(self.task, completed=done, rate=pace, left=left)
            self.line.plain = self.news
        else:
            self._say("  ".join(filter(None, (f"{self.title}: {done}/{self.total}", pace, left, self.news))))

    def _say(self, text: str) -> None:
        try:
            self.console.print(text, markup=False, soft_wrap=True)
        except OSError:  # whoever read this has gone; training goes on
            self.console.quiet = True


def clock(seconds: float) -> str:
    """A time to wait, as people say it."""
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def plural(count: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{count} {noun}{'s' * (count != 1)}"


def numbers(rows: list[dict[str, Any]]) -> str:
    """The numbers to watch, where they exist yet: of one run, or the range over several."""
    shown = (
        ("score_mean_100", "score {}", ".4g"), ("critic_loss", "critic {}", ".3g"), ("alpha", "alpha {}", ".3g"),
        ("entropy_share", "entropy {} of max", ".0%"),
    )  # fmt: skip
    found = []
    for key, text, form in shown:
        values = [row[key] for row in rows if key in row]
        if values:
            ends = dict.fromkeys((format(min(values), form), format(max(values), form)))  # one, if they look equal
            found.append(text.format(" to ".join(ends)))
    return "  ".join(found)


def say(text: str) -> None:
    """A result, on standard output."""
    print(text)


def complain(text: str) -> None:
    """An error or warning, on standard error."""
    with contextlib.suppress(BrokenPipeError):
        print(f"sacd: {text}", file=sys.stderr)
