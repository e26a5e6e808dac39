"""Signals set a flag and nothing else; the loop looks at it between two steps. A second Ctrl-C stops at once."""

import signal
import threading
from types import FrameType, TracebackType

from sacd.errors import Interrupted

INTERRUPTED, PREEMPTED = 130, 75  # exit codes: Ctrl-C, and 'saved, queue me again'


class Stop:
    """While entered, SIGINT, SIGTERM and SIGUSR1 ask for a stop instead of ending the process."""

    def __init__(self) -> None:
        self.requested, self.code = False, 0
        self._before: dict[int, object] = {}

    def check(self, where: str) -> None:
        """Stop here if that was asked for."""
        if self.requested:
            raise Interrupted(f"stopped {where}, saved; the same command goes on from there.", self.code)

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        self.code = INTERRUPTED if number == signal.SIGINT else PREEMPTED
