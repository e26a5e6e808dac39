"""Lanes in processes of their own: a fleet's games are many, and one Python cannot serve them all in time.

Each process (this file, run as a program) serves some of the games. It is told what to do in lines on its standard
input: JSON, or an empty line for the usual step. What lanes answer lies in memory that all share, so that a fleet's
frames are one array; a line on its standard output says that it is there. A process ends with its input, so none
outlives the one that trains. Nothing random is drawn here: the bits are those of the same lanes in one process.
"""

import contextlib
import json
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sacd import config, errors
from sacd.config import Config
from sacd.envs.atari import AtariLanes
from sacd.envs.together import Together, split, widest
from sacd.errors import EnvError, SacdError, blaming
from sacd.machine import cores
from sacd.types import Spec, Step

CORES_EACH = 4
Games = Sequence[tuple[Config, int]]  # each with its number of lanes


def processes(games: Games) -> int:
    """How many are worth their while; 0: serve the games in this process."""
    apart = len(games) > 1 and hasattr(os, "memfd_create")
    return min(len(games), cores() // CORES_EACH) if apart else 0


class Shared:
    """What all processes of a fleet see: arrays over its lanes."""

    def __init__(self, handle: int, lanes: int, frame: tuple[int, ...]):
        shapes = {
            "actions": ((lanes,), np.int64), "reward": ((lanes,), np.float64), "closes": ((lanes,), np.uint8),
            "ended": ((lanes,), np.bool_), "frame": ((lanes, *frame), np.uint8), "final": ((lanes, *frame), np.uint8),
        }  # fmt: skip
        sizes = [int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in shapes.values()]
        starts = np.cumsum([0, *(-(-size // 64) * 64 for size in sizes)]).tolist()
        os.ftruncate(handle, starts[-1])
        memory = mmap.mmap(handle, starts[-1])
        self.arrays: dict[str, NDArray[Any]] = {
            name: np.frombuffer(memory, kind, int(np.prod(shape)), start).reshape(shape)
            for (name, (shape, kind)), start in zip(shapes.items(), starts, strict=False)
        }


class Process:
    """One of them, seen from the process that trains."""

    def __init__(self, games: Games, handle: int, sharing: int):
        words = [sys.executable, "-m", "sacd.envs.apart", str(handle)]
        pipe = subprocess.PIPE
        self.it = subprocess.Popen(words, stdin=pipe, stdout=pipe, pass_fds=(handle,), start_new_session=True)
        self.tell({"games": [(config.to_dict(c), lanes) for c, lanes in games], "sharing": sharing})

    def tell(self, words: dict[str, Any] | None = None) -> None:
        """A command; none is the usual step."""
        assert self.it.stdin is not None
        try:
            self.it.stdin.write(json.dumps(words).encode() + b"\n" if words else b"\n")
            self.it.stdin.flush()
        except BrokenPipeError:
            pass  # its answer, or that there is none, says why

    def answer(self, lanes: Sequence[int] = ()) -> Any:
        """What it says when it is done. Its error is raised here, for the lanes of the fleet that it serves."""
        assert self.it.stdout is not None
        line = self.it.stdout.readline()
        with blaming(lanes):
            if not line:
                raise EnvError("a process of emulators was killed, perhaps for want of memory.")
            found = json.loads(line)
            if isinstance(found, dict) and "error" in found:
                error: SacdError = getattr(errors, found["error"])(found["message"])
                error.lanes = [lanes[i] for i in found["lanes"]] if lanes else ()
                raise error
        return found

    def dismiss(self) -> None:
        """End its input, and so itself."""
        assert self.it.stdin is not None and self.it.stdout is not None
        for pipe in (self.it.stdin, self.it.stdout):
            with contextlib.suppress(OSError):  # what it was told last may not have reached it
                pipe.close()

    def wait(self) -> None:
        """Until it is gone."""
        try:
            self.it.wait(5)
        except subprocess.TimeoutExpired:
            self.it.kill()
            self.it.wait()


class Apart:
    """Lanes of several games, as if they were of one."""

    def __init__(self, games: Games, count: int):
        ends = np.linspace(0, len(games), count + 1).round().astype(int)
        shares = [games[a:b] for a, b in pairwise(ends.tolist())]
        self.starts = [0, *np.cumsum([sum(lanes for _, lanes in share) for share in shares]).tolist()]
        self.parts, self.parked = ends.tolist(), dict[int, list[int]]()  # games by process, and those to be parked
        handle = os.memfd_create("sacd")
        self.processes: list[Process] = []
        try:
            self.processes += (Process(share, handle, len(games)) for share in shares)
            specs = [Spec(**(given | {"frame": tuple(given["frame"])})) for p in self.processes for given in p.answer()]
            self.spec, self.actions_of = widest(specs), [spec.actions for spec in specs]
            self.shared = Shared(handle, self.starts[-1], self.spec.frame).arrays
            for process, first in zip(self.processes, self.starts, strict=False):
                process.tell({"lanes": self.starts[-1], "first": first, "frame": self.spec.frame})
        except BaseException:
            self.close()
            raise
        finally:
            os.close(handle)

    def reset(self, seeds: dict[int, int | None], first: bool = False) -> NDArray:
        """Start the lanes in `seeds` anew; the frames of all lanes."""
        told = [(p, mine) for p, mine in enumerate(split(seeds, self.starts)) if mine or first]
        for p, mine in told:
            self.processes[p].tell({"reset": list(mine.items()), "all": first})
        for p, _ in told:
            self.processes[p].answer(self._lanes(p))
        return self.shared["frame"].copy()

    def park(self, parts: Sequence[int]) -> None:
        """From the next step on these games stand still."""
        for p, mine in enumerate(split(dict.fromkeys(parts), self.parts)):
            if mine:
                self.parked.setdefault(p, []).extend(mine)

    def send(self, actions: NDArray, seeds: dict[int, int]) -> None:
        """Begin a step everywhere."""
        self.shared["actions"][:] = actions
        shares = split(seeds, self.starts) if seeds else [{}] * len(self.processes)
        for p, (process, mine) in enumerate(zip(self.processes, shares, strict=True)):
            words: dict[str, Any] = {"seeds": list(mine.items())} if mine else {}
            process.tell(words | {"park": self.parked.pop(p)} if p in self.parked else words)

    def recv(self) -> Step:
        """Finish it everywhere. The frames are good until the next step begins."""
        for p, process in enumerate(self.processes):
            process.answer(self._lanes(p))
        s = self.shared
        ended = s["ended"].copy()
        final = s["final"] if ended.any() else s["frame"]
        return Step(s["frame"], final, s["reward"].copy(), s["closes"].copy(), ended)

    def close(self) -> None:
        for process in self.processes:
            process.dismiss()
        for process in self.processes:
            process.wait()

    def _lanes(self, process: int) -> range:
        return range(self.starts[process], self.starts[process + 1])


def serve(handle: int) -> None:
    """The life of one process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # the one that trains decides
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever an emulator prints is no answer

    def say(words: Any) -> None:
        answers.write(json.dumps(words).encode() + b"\n")

    lanes: Together | None = None
    mine: dict[str, NDArray[Any]] = {}
    for line in iter(sys.stdin.buffer.readline, b""):
        try:
            words = json.loads(line) if line != b"\n" else {}
            if "games" in words:
                games = [(config.from_dict(c), count) for c, count in words["games"]]
                parts = [AtariLanes(c, count, words["sharing"]) for c, count in games]
                lanes = Together(parts, [count for _, count in games])
                say([asdict(part.spec) for part in parts])
            elif "lanes" in words:
                shared = Shared(handle, words["lanes"], tuple(words["frame"]))
                assert lanes is not None
                mine = {k: a[words["first"] :][: lanes.starts[-1]] for k, a in shared.arrays.items()}
            else:
                assert lanes is not None
                turn(lanes, mine, words)
                say(True)
        except BrokenPipeError:  # nobody listens any more
            break
        except SacdError as error:
            say({"error": type(error).__name__, "message": str(error), "lanes": list(error.lanes)})
        except Exception as error:  # noqa: BLE001  it is raised again where somebody can tell the user
            say({"error": "EnvError", "message": f"{type(error).__name__}: {error}", "lanes": []})
    if lanes is not None:
        lanes.close()


def turn(lanes: Together, mine: dict[str, NDArray[Any]], words: dict[str, Any]) -> None:
    """A reset or a step, its answer laid where all see it."""
    if "reset" in words:
        mine["frame"][:] = lanes.reset(dict(words["reset"]), first=words["all"])
        return
    lanes.park(words.get("park", ()))
    lanes.send(mine["actions"].copy(), dict(words.get("seeds", ())))
    step = lanes.recv()
    for name in ("frame", "reward", "closes", "ended"):
        mine[name][:] = getattr(step, name)
    mine["final"][:] = step.final


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        serve(int(sys.argv[1]))
