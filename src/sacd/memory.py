"""What a run will take, computed before it starts: too much is refused with the figure and the option to change."""

from pathlib import Path

import psutil

from sacd import replay
from sacd.config import Config
from sacd.errors import ResourceError
from sacd.types import Spec

FIXED = 600 * 2**20  # torch, the emulator and the interpreter
NETS = 5 * 4 + 3 * 8 + 3 * 4  # bytes a parameter of one net: five nets, three pairs of moments, gradients


def free_memory() -> int:
    """Bytes that may still be taken: of the machine or of the control group, whichever is less."""
    free = psutil.virtual_memory().available
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = ((group / f"memory.{k}").read_text().strip() for k in ("max", "current"))
    except OSError:
        return free
    return free if limit == "max" else min(free, int(limit) - int(used))


def needed(spec: Spec, config: Config, runs: int, parameters: int) -> int:
    """Bytes that the runs will come to hold."""
    tape = replay.bytes_for(spec, config.buffer_size, config.steps)
    return FIXED + runs * (tape + NETS * parameters)


def check(spec: Spec, config: Config, runs: int, parameters: int) -> int:
    """Refuse a run that cannot fit; the bytes it will come to hold."""
    want, free = needed(spec, config, runs, parameters), free_memory()
    if want > free:
        one = replay.bytes_for(spec, 10**6, 10**6) / 10**6
        fits = max(
            int((free - (want - runs * replay.bytes_for(spec, config.buffer_size, config.steps))) / runs / one), 0
        )
        raise ResourceError(
            f"the run would need {want / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free: "
            f"lower --buffer-size {config.buffer_size} to {fits // 1000 * 1000} or less."
        )
    return want
