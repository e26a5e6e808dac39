"""The one kind of error a user sees: a sentence on what is wrong and what to do, and an exit code.

Codes: 2 usage or configuration, 3 environment, 4 checkpoint or model file, 5 resources (memory, disk, device),
6 diverged, 7 run folder in use, 75 interrupted and saved, 130 Ctrl-C and saved.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

# What to do about a run that diverged.
AFTER = "Checkpoints before it, if there are any, are sound; a smaller --learning-rate, or --alpha-max, may help."


class SacdError(Exception):
    """Something the user can put right. `lanes` are those of a fleet that it came from, where that is known."""

    code = 1
    lanes: Sequence[int] = ()


class UsageError(SacdError):
    """A field, value or command that cannot be meant."""

    code = 2


class EnvError(SacdError):
    """An environment that cannot be made, or that broke its contract."""

    code = 3


class CheckpointError(SacdError):
    """A file of a run that is missing, truncated or altered."""

    code = 4


class ResourceError(SacdError):
    """Not enough memory or disk, no permission, or no such device."""

    code = 5


class DivergedError(SacdError):
    """A number that is not finite where training needs one."""

    code = 6


class LockedError(SacdError):
    """Another process is writing this run."""

    code = 7


class Interrupted(SacdError):
    """A signal asked for a stop; everything is saved."""

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


@contextmanager
def blaming(lanes: Sequence[int]) -> Iterator[None]:
    """An error in here came from these lanes, unless it knows better."""
    try:
        yield
    except SacdError as error:
        error.lanes = error.lanes or lanes
        raise


@contextmanager
def in_groups(size: int) -> Iterator[None]:
    """An error in here came from lanes; outside it came from groups of so many of them."""
    try:
        yield
    except SacdError as error:
        error.lanes = sorted({lane // size for lane in error.lanes})
        raise


def nearest(word: str, known: Iterable[str]) -> str:
    """' Did you mean a, b?' for the known words closest to `word`, or nothing."""
    by_lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=3, cutoff=0.6)
    return f" Did you mean {', '.join(by_lower[c] for c in close)}?" if close else ""
