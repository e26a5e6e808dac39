"""A fleet on a GPU: one gradient step and one act of R runs, with the memory they take.

    python bench/fleet.py [--runs 1,20,100] [--profile]

Times are medians of CUDA-event timings over replays of the recorded graph, on fresh random images.
"""

import argparse
import statistics

from sacd import engine

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--runs", default="1,20,100")
parser.add_argument("--orders", default="simultaneous,sequential")
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--precisions", default="bf16")
parser.add_argument("--profile", action="store_true", help="kernels by time, after each variant")
options = parser.parse_args()
engine.prepare(0)

import torch

from sacd import config, runs
from sacd.agents.sac import SAC
from sacd.graph import Recorded
from sacd.types import Batch, Spec

GAME, BATCH = Spec((84, 84), True, 4, 18), 64
CUDA = torch.device("cuda")


def random_batch(count: int) -> Batch:
    """Fresh random transitions of R runs."""

    def images() -> torch.Tensor:
        return torch.randint(0, 256, (count, BATCH, *GAME.obs), dtype=torch.uint8, device=CUDA)

    action = torch.randint(0, GAME.actions, (count, BATCH), device=CUDA)
    reward = torch.randn(count, BATCH, device=CUDA)
    return Batch(images(), action, reward, torch.full_like(reward, 0.99), images())


def milliseconds(call, steps: int) -> list[float]:
    """Device times of single calls, sorted."""
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(steps)]
    for begin, end in marks:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return sorted(b.elapsed_time(e) for b, e in marks)


def measure(count: int, precision: str, order: str) -> tuple[float, float, float]:
    """Milliseconds of an update and of an act, gigabytes at the peak."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    sac = SAC(GAME, config.make("bench", precision=precision, update_order=order), CUDA)
    state = sac.init(torch.arange(count, device=CUDA))
    batches, aim = [random_batch(count) for _ in range(2)], torch.full((count,), 2.0, device=CUDA)
    step, act = Recorded(sac.gradient_step), Recorded(sac.logits)
    obs = batches[0].obs[:, :1].contiguous()
    for i in range(6):
        step(state, batches[i % 2], None, aim)
        act(state, obs)
    turn = iter(range(10**9))
    update = milliseconds(lambda: step(state, batches[next(turn) % 2], None, aim), options.steps)
    acting = milliseconds(lambda: act(state, obs), options.steps)
    if options.profile:
        show_profile(lambda: step(state, batches[0], None, aim))
    return statistics.median(update), statistics.median(acting), torch.cuda.max_memory_allocated() / 1e9


def show_profile(call) -> None:
    """Device kernels by time."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(3):
            call()
        torch.cuda.synchronize()
    rows = sorted(seen.key_averages(), key=lambda e: -e.self_device_time_total)[:32]
    for e in rows:
        print(f"  {e.self_device_time_total / 3000:8.3f} ms  {e.count / 3:5.1f} x  {e.key[:110]}")


def main() -> None:
    """Measure and print."""
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, commit {runs.commit()}")
    print(f"{'R':>4} {'precision':>9} {'order':>13} {'update ms':>10} {'act ms':>8} {'GB':>6}")
    for count in map(int, options.runs.split(",")):
        for precision in options.precisions.split(","):
            for order in options.orders.split(","):
                update, acting, memory = measure(count, precision, order)
                print(f"{count:4} {precision:>9} {order:>13} {update:10.3f} {acting:8.3f} {memory:6.1f}", flush=True)


main()
