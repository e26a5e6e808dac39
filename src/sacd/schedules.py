"""Numbers that may change during a run, written as text so that a configuration file can hold them.

`0.98` is a constant; `linear(0.98, 0.3)` moves evenly from the first to the second over the run;
`exp(1, 0.01)` moves by a constant factor per step.
"""

import math
import re

from sacd.errors import UsageError

_FORM = re.compile(r"\s*(linear|exp)\s*\(\s*([^,()]+)\s*,\s*([^,()]+)\s*\)\s*")


def parse(text: str) -> tuple[str, float, float]:
    """The form of a schedule and its first and last value."""
    match = _FORM.fullmatch(text)
    form, first, last = match.groups() if match else ("constant", text, text)
    try:
        a, b = float(first), float(last)
        if not (math.isfinite(a) and math.isfinite(b)):
            raise ValueError
    except ValueError:
        raise UsageError(f"'{text}' is not a schedule: write a number, linear(a, b) or exp(a, b).") from None
    if form == "exp" and not (a > 0 and b > 0):
        raise UsageError(f"'{text}': exp(a, b) needs two positive numbers.")
    return form, a, b


def value(text: str, fraction: float) -> float:
    """The value of a schedule when `fraction` (0 to 1) of the run is done."""
    form, a, b = parse(text)
    if form == "exp":
        return a * (b / a) ** fraction
    return a + (b - a) * fraction


def ends(text: str) -> tuple[float, float]:
    """First and last value: every form here is monotonic, so all values lie between."""
    return parse(text)[1:]
