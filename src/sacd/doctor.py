"""`sacd doctor`: what will be used here, and why."""

import shutil
import statistics
import time
from pathlib import Path

import torch

from sacd import engine, memory, runs
from sacd.config import Config
from sacd.console import say
from sacd.envs import names
from sacd.kernels import HAVE_TRITON, cpu
from sacd.machine import processor


def examine() -> None:
    """Print hardware, versions, what a run would use, and the reasons."""
    rates = {precision: gemm_rate(dtype) for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16))}
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    games = len(set(names.PAPER_GAMES) & names.roms().keys())
    found = runs.versions()
    rows = {
        "sacd": f"{found['sacd']}, commit {runs.commit()}",
        "versions": ", ".join(f"{k} {v}" for k, v in found.items() if k != "sacd"),
        "processor": f"{processor()}, {engine.cores()} cores for this process, {torch.get_num_threads()} threads",
        "memory": f"{memory.free_memory() / 1e9:.1f} GB free; an Atari run takes some 1.8 GB at 100k steps, 9 GB at 1M",
        "disk": f"{shutil.disk_usage(Path.cwd()).free / 1e9:.1f} GB free here; a run takes about 0.2 GB",
        "Atari": f"{games} of the paper's {len(names.PAPER_GAMES)} games are installed",
        "device": device_advice(gpus),
        "matrix rate": ", ".join(f"{k} {v:.0f} GFLOP/s" for k, v in rates.items()),
        "precision": precision_advice(rates),
    }
    width = max(map(len, rows))
    for key, value in rows.items():
        say(f"{key.ljust(width)}  {value}")


def device_advice(gpus: list[str]) -> str:
    """What `auto` takes, and why."""
    if not gpus:
        return f"cpu, because torch {torch.__version__} finds no CUDA device"
    others = f"; also there: {', '.join(gpus[1:])}" if gpus[1:] else ""
    triton = "" if HAVE_TRITON else "; Triton is not installed, so its products are the slower, ordinary ones"
    return f"cuda:0, {gpus[0]}{others}{triton}"


def precision_advice(rates: dict[str, float]) -> str:
    """The precision a run uses by default, and what the other would do here."""
    faster = rates["bf16"] / rates["fp32"]
    default = (
        f"{Config.precision}, because bf16 is not the same computation and its learning is not yet shown to be unharmed"
    )
    if faster > 1.3:
        return f"{default}; --precision bf16 multiplies {faster:.1f} times faster here"
    return f"{default}; --precision bf16 gains nothing here ({faster:.1f} times as fast)"


def gemm_rate(dtype: torch.dtype, size: int = 1024) -> float:
    """GFLOP/s of a square matrix product, by the library that updates use: their ceiling on the CPU."""
    a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
    times = []
    for _ in range(8):
        begin = time.perf_counter()
        cpu.linear(a, b)
        times.append(time.perf_counter() - begin)
    return 2 * size**3 / statistics.median(times[2:]) / 1e9
