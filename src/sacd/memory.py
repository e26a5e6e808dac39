"""What a run will take, computed before it starts: too much is refused with the figure and the option to change."""

import math
from pathlib import Path

import psutil
import torch

from sacd.config import Config
from sacd.errors import ResourceError
from sacd.replay import slots_for
from sacd.types import Spec

FIXED = 600 * 2**20  # torch, the emulator and the interpreter
NETS = 5 * 4 + 3 * 8 + 3 * 4  # bytes a parameter of one net: five nets, three pairs of moments, gradients
PASSING = 2 * (5 * 4 + 3 * 8) + 48  # likewise: a checkpoint's bytes while it is written, draws of the first weights
PACKED = 5 * 2  # likewise on a GPU: copies in bfloat16
PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
NAMES = (  # of a control group's limit, use, and what of it can be given back: version 2, version 1
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
UNLIMITED = 2**60
BESIDE = 2 + 4 + 1 + 1 + 8  # bytes of a slot of the tape beside its frame: columns, and its entry in `order`
MARKS = 16  # on a GPU: those columns packed, and the entry
ACTIVATIONS = 600_000  # bytes a transition of a batch of images


def free_memory() -> int:
    """Bytes that may still be taken: of the machine or of the control group, whichever is less."""
    limits = [left for group in groups() if (left := left_in(group)) is not None]
    return min([psutil.virtual_memory().available, *limits])


def groups() -> list[Path]:
    """Control groups of this process, of either version, from its own to the outermost."""
    try:
        lines = (PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for _, kinds, path in (line.split(":", 2) for line in lines):
        if kinds in ("", "memory"):  # version 2, version 1
            root, inner = CGROUPS / kinds, (CGROUPS / kinds).joinpath(path.lstrip("/"))
            found += [inner, *(p for p in inner.parents if p == root or root in p.parents)]
    return found


def left_in(group: Path) -> int | None:
    """Bytes that a control group still allows; None if it sets no limit."""
    for limit, used, cached in NAMES:
        try:
            most = (group / limit).read_text().strip()
            taken = int((group / used).read_text())
            facts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):
            continue
        return int(most) - taken + int(facts.get(cached, 0)) if most != "max" and int(most) < UNLIMITED else None
    return None


def tape_bytes(spec: Spec, buffer_size: int, steps: int) -> int:
    """Memory that a run's replay may come to hold; pages never touched are free."""
    frame = math.prod(spec.frame) * (1 if spec.image else 4)
    return slots_for(spec, buffer_size, steps, 1) * (frame + BESIDE)


def needed(spec: Spec, config: Config, runs: int, parameters: int) -> int:
    """Bytes that the runs will come to hold."""
    tape = tape_bytes(spec, config.buffer_size, config.steps)
    batch = config.batch_size * (ACTIVATIONS if spec.image else 40 * sum(config.hidden))
    return FIXED + runs * (tape + (NETS + PASSING) * parameters + batch)


def needed_on_gpu(spec: Spec, config: Config, parameters: int) -> int:
    """Bytes that one run of a fleet will come to hold on a GPU."""
    slots = slots_for(spec, config.buffer_size, config.steps, config.n_envs) * config.n_envs
    tape = slots * (math.prod(spec.frame) * (1 if spec.image else 4) + MARKS)
    return tape + (NETS + PACKED) * parameters + (config.batch_size * ACTIVATIONS if spec.image else 0)


def check(spec: Spec, config: Config, runs: int, parameters: int, device: torch.device) -> int:
    """Refuse a run that cannot fit; the bytes it will come to hold."""
    want, free = needed(spec, config, runs, parameters), free_memory()
    if device.type == "cuda":
        want, free = runs * needed_on_gpu(spec, config, parameters), torch.cuda.mem_get_info(device)[0]
    if want > free:
        one = tape_bytes(spec, 10**6, 10**6) / 10**6
        fits = max(int((free - (want - runs * tape_bytes(spec, config.buffer_size, config.steps))) / runs / one), 0)
        advice = f"lower --buffer-size {config.buffer_size} to {fits // 1000 * 1000} or less."
        if fits < 1000:
            advice = "even the smallest replay would not fit; take smaller networks or batches."
        raise ResourceError(
            f"the run would need {want / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free: {advice}"
        )
    return want
