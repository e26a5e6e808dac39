"""Checkpoints of a fleet: each run's share of the five owners (weights, replay, pool, clock, log), saved and restored.

A save writes the new part of the replay, then the tensors, then the manifest; only then is anything old deleted. A
restore takes the newest checkpoint whose every byte is as written, and goes on as if nothing had happened.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sacd import checkpoint, engine
from sacd.agents.sac import State
from sacd.clock import Clock
from sacd.envs.pool import Pool
from sacd.errors import AFTER, CheckpointError, DivergedError, blaming
from sacd.files import read_file, sweep
from sacd.log import RunLog
from sacd.replay import Replay
from sacd.runs import RunFolder

KEEP = 2  # checkpoints


class Saved:
    """The owners of a fleet on one side, its folders on the other."""

    def __init__(
        self, folders: list[RunFolder], state: State, replay: Replay, pool: Pool, clock: Clock, logs: list[RunLog]
    ):
        self.folders, self.state, self.replay = folders, state, replay
        self.pool, self.clock, self.logs = pool, clock, logs
        self.chunks: list[dict[str, Any]] = [{} for _ in folders]  # replay files by name, with fingerprints
        self.since = [[0] * pool.each for _ in folders]  # the slots that the next chunk begins with

    def save(self) -> None:
        """Every run's checkpoint of this step."""
        runs, device = range(len(self.folders)), self.state.log_alpha.device
        self.replay.settle()
        if device.type == "cuda":  # other threads have other streams
            torch.cuda.current_stream(device).synchronize()
        if len(runs) == 1:
            self._save_run(0)
        else:  # hashing, compressing and writing leave Python to the others
            with ThreadPoolExecutor(min(len(runs), engine.cores())) as several:
                list(several.map(self._save_run, runs))

    def restore(self, check: Callable[[str], None]) -> list[str]:
        """Go on from the newest checkpoints, or start from nothing; what there is to say about it.

        `check` is asked on the way whether to stop.
        """
        found = self._common()
        notes = [text for _, _, text in found if text]
        if not all(facts for _, facts, _ in found):
            for run, folder in enumerate(self.folders):
                with blaming(self.pool.of(run)):
                    folder.require_new()
            self.replay.start(self.pool.start())
            for log in self.logs:
                log.open(None)
            return notes
        for run, (tensors, facts, _) in enumerate(found):
            with blaming(self.pool.of(run)):
                self._lay_back(run, tensors, facts)
        self.state.restored(self.clock.updates)
        actions = [[tensors[f"actions.{e}"].numpy() for e in range(self.pool.each)] for tensors, _, _ in found]
        lost = self.pool.load([facts["pool"] for _, facts, _ in found], actions, lambda: check("while resuming"))
        for lane in lost:
            self.replay.cut(lane, self.pool.frame[lane])
        if lost:
            notes.append(
                "the environment does not repeat itself from its seed: the episodes under way were cut, and this run "
                "is not bit for bit the one that was interrupted."
            )
        return [*notes, f"resumed at step {self.clock.step}.", *_changes(found[0][1], _circumstances(self.state))]

    def _save_run(self, run: int) -> None:
        folder, step = self.folders[run], self.clock.step
        tensors = {k: t.cpu() for k, t in self.state.share(run).items()}
        bad = [name for name, t in tensors.items() if not torch.isfinite(t).all()]
        if bad:
            with blaming(self.pool.of(run)):
                raise DivergedError(
                    f"at step {step} the networks' numbers are not finite ({bad[0]}): the run diverged. {AFTER}"
                )
        recorded = {f"actions.{e}": torch.from_numpy(a) for e, a in enumerate(self.pool.recorded(run))}
        facts = {
            "step": step, "updates": self.clock.updates, "replay": self._save_replay(run), "pool": self.pool.save(run),
            "log": self.logs[run].save(), **_circumstances(self.state),
        }  # fmt: skip
        name = f"step_{step:012d}"
        checkpoint.write(folder.checkpoints / name, tensors | recorded, facts, self.chunks[run])
        kept = [name, *(p.name for p in folder.saved_steps() if p.name < name)][:KEEP]
        sweep(folder.checkpoints, kept)
        sweep(folder.replay, {f for k in kept for f in _chunk_names(folder.checkpoints / k)})

    def _save_replay(self, run: int) -> dict[str, list[int]]:
        """Append what is new; the counters that place it."""
        chunk, counters = self.replay.save(run, self.since[run])
        name = f"{self.clock.step:012d}.zst"
        written = checkpoint.write_chunk(self.folders[run].replay / name, chunk)
        self.chunks[run][f"replay/{name}"] = written | {"heads": counters["head"]}
        self.since[run] = counters["head"]  # the newest slot is not complete yet: it is saved again
        gone = [h - self.replay.slots for h in counters["head"]]
        self.chunks[run] = {
            k: v for k, v in self.chunks[run].items() if any(h > g for h, g in zip(v["heads"], gone, strict=True))
        }
        return counters

    def _common(self) -> list[tuple[dict[str, Tensor], dict[str, Any], str]]:
        """Every run's newest sound checkpoint of one step: a crash between two saves leaves a run behind."""
        found = [self._newest(run) for run in range(len(self.folders))]
        while len(steps := {facts["step"] for _, facts, _ in found if facts}) > 1:
            found = [self._newest(run, min(steps)) for run in range(len(self.folders))]
        return found

    def _newest(self, run: int, latest: float = math.inf) -> tuple[dict[str, Tensor], dict[str, Any], str]:
        """Tensors and manifest of the newest sound checkpoint up to a step, and what was wrong with newer ones."""
        folder, wrong = self.folders[run], []
        for path in folder.saved_steps():
            if int(path.name.removeprefix("step_")) > latest:
                continue
            try:
                tensors, facts = checkpoint.read(path)
                kept = {k: t for k, t in tensors.items() if not k.startswith("actions.")}
                checkpoint.check_tensors(kept, self.state.share(run), path)
                for name, file in facts["files"].items():
                    if name.startswith("replay/"):
                        read_file(folder.path / name, _print(file))
            except CheckpointError as error:
                wrong.append(str(error))
            else:
                return tensors, facts, " ".join([*wrong, "The checkpoint before it is taken."]) if wrong else ""
        if wrong:
            with blaming(self.pool.of(run)):
                raise CheckpointError(
                    f"no sound checkpoint is left: {' '.join(wrong)} Nothing was changed; take another folder."
                )
        return {}, {}, ""

    def _lay_back(self, run: int, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        folder = self.folders[run]
        for name, t in self.state.share(run).items():
            t.copy_(tensors[name])
        self.chunks[run] = {k: v for k, v in facts["files"].items() if k.startswith("replay/")}
        chunks = (checkpoint.read_chunk(folder.path / k, _print(v)) for k, v in sorted(self.chunks[run].items()))
        self.replay.load(run, chunks, facts["replay"])
        self.since[run] = facts["replay"]["head"]
        self.logs[run].open(facts["log"])
        self.clock.step, self.clock.updates = facts["step"], facts["updates"]


def _print(file: dict[str, Any]) -> dict[str, Any]:
    return {k: file[k] for k in ("bytes", "sha256")}


def _chunk_names(path: Path) -> list[str]:
    """Replay files that a checkpoint speaks for; none if it is damaged."""
    try:
        return [Path(name).name for name in checkpoint.read_manifest(path)["files"] if name.startswith("replay/")]
    except CheckpointError:
        return []


def _circumstances(state: State) -> dict[str, Any]:
    """What bits may depend on."""
    device = state.log_alpha.device
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return {"threads": torch.get_num_threads(), "torch": torch.__version__, "device": where}


def _changes(facts: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What is not as it was when the checkpoint was written, and so may change bits."""
    differences = [f"{k} {facts[k]} -> {v}" for k, v in now.items() if facts[k] != v]
    return [f"exact: no ({', '.join(differences)})."] if differences else []
