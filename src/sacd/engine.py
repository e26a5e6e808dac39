"""How the arithmetic is executed: device, threads, allocator. Applied once, from outside; nothing else asks.

`bound` must run before NumPy and torch are imported for the thread count to hold in every library: two processes of
two threads on two cores run ten times slower than of one.
"""

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sacd import machine
from sacd.errors import ResourceError

if TYPE_CHECKING:
    import torch

# How often a thread that waits for the others looks before it leaves its core. By default two programs of two threads
# on two cores spend ten times the time looking; like this, little more than their share (bench/NOTES.md).
SPINS = "1000"
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1  # glibc's names for mallopt


def cores() -> int:
    """Cores this process may use; OMP_NUM_THREADS bounds them, as everywhere."""
    allowed = machine.cores()
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(allowed, int(asked)) if asked.isdigit() and int(asked) > 0 else allowed


def bound(threads: int) -> int:
    """Bound the threads of every library that is not loaded yet; the bound."""
    count = threads or cores()
    if "torch" not in sys.modules:
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ[name] = str(count)
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    return count


def prepare(threads: int) -> int:
    """Load torch with so many threads, and keep freed memory in the process; their number."""
    count = bound(threads)
    keep_freed_memory()
    import torch  # noqa: PLC0415  not before the lines above

    torch.set_num_threads(count)
    torch.set_flush_denormal(True)  # before the threads that inherit it exist
    return count


def pin(threads: int, image: bool) -> None:
    """The threads to learn with: those asked for, else all cores for images and one for small vectors.

    Numbers below 1e-38 are zero: Adam's moments of units that no longer fire pass through them, and arithmetic on them
    is so slow that Adam took three times as long.
    A second thread gains a fifth on an MLP's small products, and loses more than all of it as soon as anything else
    runs on the machine: every product waits for the slower thread.
    """
    import torch  # noqa: PLC0415

    torch.set_num_threads(threads or (cores() if image else 1))
    torch.set_flush_denormal(True)


def hasten(agent: Any, device: "torch.device") -> Callable[..., Any]:
    """On a GPU, have the agent's gradient step recorded and replayed. What to act with, likewise.

    Emulators wait for actions, so acting goes before another part's gradient step.
    """
    if device.type == "cpu":
        return agent.act
    from sacd.graph import Recorded  # noqa: PLC0415

    agent.step = Recorded(agent.gradient_step)
    return Recorded(agent.act, urgent=True)


def free_memory(device: "torch.device") -> None:
    """Give back what a fleet that is over has held, so that the next one finds it: recorded steps are cycles."""
    gc.collect()
    if device.type == "cuda":
        import torch  # noqa: PLC0415

        from sacd.graph import RECORDING  # noqa: PLC0415

        with RECORDING:  # nothing may be freed while another part records
            torch.cuda.empty_cache()


class Turns:
    """Parts of a fleet learn one after the other: the first is done, and its emulators go on, while the next learns.

    It is the GPU that waits, in the order in which the parts came; the host goes on to its emulators.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: torch.cuda.Event | None = None

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._before is not None:
            self._before.wait()

    def __exit__(self, *error: object) -> None:
        import torch  # noqa: PLC0415

        try:
            if torch.cuda.is_available():
                self._before = torch.cuda.current_stream().record_event()
        finally:
            self._lock.release()


@contextmanager
def own_stream(device: "torch.device") -> Iterator[None]:
    """On a GPU, a queue of this thread's own: parts of a fleet do not wait for each other."""
    if device.type == "cpu":
        yield
        return
    import torch  # noqa: PLC0415

    stream = torch.cuda.Stream(device, priority=-1)  # a recorded gradient step has its own, lower one
    with torch.cuda.device(device), torch.cuda.stream(stream):
        yield
        stream.synchronize()


def keep_freed_memory() -> None:
    """Stop glibc from giving each large activation back to the kernel and faulting it in again: a fifth of an update.

    Other C libraries have no such switch and need none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


def device(name: str) -> "torch.device":
    """The device to learn on, or a sentence on why not. `auto` is a GPU where torch finds one."""
    import torch  # noqa: PLC0415

    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ResourceError(f"--device {name}: torch {torch.__version__} finds no CUDA device here; take --device cpu.")
    index = int(name.partition(":")[2] or 0)  # of `auto` too
    if index >= torch.cuda.device_count():
        raise ResourceError(f"--device {name}: there are {torch.cuda.device_count()} CUDA devices, counted from 0.")
    return torch.device("cuda", index)
