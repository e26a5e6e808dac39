"""Folders of tensors: what is read is what was written, or an error; after a crash or a full disk the rest is there."""

import errno
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sacd import checkpoint, files
from sacd.errors import CheckpointError, ResourceError
from tiny import Crash

NAMES = ("step_1", "step_2", "step_3")


def tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return {
        "weight": torch.randn(4, 3, generator=g), "scalar": torch.tensor(0.5), "empty": torch.zeros(0, 2),
        "actions.0": torch.randint(18, (50,), generator=g).to(torch.int16),
        "frame": torch.randint(256, (2, 5), generator=g).to(torch.uint8), "first": torch.tensor([2**40]),
    }  # fmt: skip


def facts(step: int = 7) -> dict[str, Any]:
    return {"step": step, "updates": 3, "pool": {"due": [True, False], "frame": ["ab"]}, "log": {"sums": {"q": 0.1}}}


def sound(folder: Path, seed: int = 0, step: int = 7) -> bool:
    """Whether a folder reads as what `write` was given."""
    found, manifest = checkpoint.read(folder)
    wanted = tensors(seed)
    assert found.keys() == wanted.keys()
    return all(torch.equal(found[k], t) and found[k].dtype == t.dtype for k, t in wanted.items()) and all(
        manifest[k] == v for k, v in facts(step).items()
    )


@pytest.fixture
def folder(tmp_path) -> Path:
    checkpoint.write(tmp_path / "step_1", tensors(), facts(), {"replay/1.zst": {"bytes": 3, "sha256": "0"}})
    return tmp_path / "step_1"


def test_round_trip(folder):
    """Tensors come back with their bits, shapes and types, facts as they were, other files' fingerprints too."""
    assert sound(folder)
    assert checkpoint.read_manifest(folder)["files"]["replay/1.zst"] == {"bytes": 3, "sha256": "0"}
    assert sorted(p.name for p in folder.parent.iterdir()) == ["step_1"]


def test_views_are_written_as_they_look(tmp_path):
    """A slice or a transposed tensor is written in its own order."""
    t = torch.arange(24.0).view(2, 3, 4)
    checkpoint.write(tmp_path / "a", {"slice": t[1], "moved": t.permute(2, 0, 1)}, {})
    found, _ = checkpoint.read(tmp_path / "a")
    assert torch.equal(found["slice"], t[1]) and torch.equal(found["moved"], t.permute(2, 0, 1))


def test_a_chunk_comes_back(tmp_path):
    """A compressed chunk reads as what was written, and is smaller than its frames."""
    frames = {"0.frame": torch.zeros(100, 84, 84, dtype=torch.uint8), "0.reward": torch.arange(100.0)}
    mark = checkpoint.write_chunk(tmp_path / "replay" / "1.zst", frames)
    found = checkpoint.read_chunk(tmp_path / "replay" / "1.zst", mark)
    assert all(torch.equal(found[k], t) for k, t in frames.items())
    assert mark["bytes"] == (tmp_path / "replay" / "1.zst").stat().st_size < 10_000


def damage(path: Path, rng: random.Random, kind: str) -> None:
    """One flipped bit, a file cut short, a file gone, or a byte too many."""
    data = bytearray(path.read_bytes())
    if kind == "flip":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[rng.randrange(len(data)) :]
    elif kind == "more":
        data.append(0)
    path.unlink() if kind == "delete" else path.write_bytes(data)


@pytest.mark.parametrize("name", [checkpoint.TENSORS, checkpoint.MANIFEST])
@pytest.mark.parametrize("kind", ["flip", "cut", "delete"])
def test_damage_is_always_noticed(tmp_path, folder, name, kind):
    """No file that was flipped, cut or deleted anywhere reads as if it were whole; the error is always ours."""
    rng, silent = random.Random(0), []
    for trial in range(1 if kind == "delete" else 300):
        copy = tmp_path / f"copy{trial}"
        shutil.copytree(folder, copy)
        damage(copy / name, rng, kind)
        before, after = ((f / name).read_bytes() if (f / name).exists() else b"" for f in (folder, copy))
        try:
            checkpoint.read(copy)
        except CheckpointError as error:
            assert str(copy) in str(error)
        else:
            silent.append(next((i for i, (x, y) in enumerate(zip(before, after, strict=False)) if x != y), -1))
    shown = sorted({(folder / name).read_bytes()[max(i - 9, 0) : i + 9] for i in silent})[:9]
    assert not silent, f"{len(silent)} of {trial + 1} went unnoticed, such as {shown}"


@pytest.mark.parametrize("kind", ["flip", "cut", "delete", "more"])
def test_a_damaged_chunk_is_noticed(tmp_path, kind):
    """A chunk of replay is refused unless every byte is as written."""
    path, rng = tmp_path / "1.zst", random.Random(1)
    mark = checkpoint.write_chunk(path, {"0.frame": torch.arange(1000.0)})
    whole = path.read_bytes()
    for _ in range(1 if kind in ("delete", "more") else 100):
        path.write_bytes(whole)
        damage(path, rng, kind)
        with pytest.raises(CheckpointError, match=r"1\.zst"):
            checkpoint.read_chunk(path, mark)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{}", "\udcff", '{"format": 1}', '{"format": 1, "files": {}}', '{"format": 1, "files": 3}',
        '{"format": 1, "files": {"tensors.safetensors": {}}}', '{"format": 1, "files": {"tensors.safetensors": 5}}',
        '{"format": 1, "files": {"tensors.safetensors": {"bytes": "x", "sha256": 1}}}',
    ],
)  # fmt: skip
def test_a_strange_manifest_is_an_error_of_ours(folder, text):
    """Whatever the manifest holds, reading the folder ends in a sentence, so that the checkpoint before is tried."""
    (folder / checkpoint.MANIFEST).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(CheckpointError, match="step_1"):
        checkpoint.read(folder)


def test_another_format_names_both(folder):
    """A folder of a newer version says which format it has and which is understood."""
    path = folder / checkpoint.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(CheckpointError, match=r"99.*reads format 1"):
        checkpoint.read(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("weight"), "weight is missing"),
        (lambda t: t.update(more=torch.zeros(1)), "more is unknown"),
        (lambda t: t.update(weight=torch.zeros(3, 4)), r"weight has shape \(3, 4\)"),
        (lambda t: t.update(weight=torch.zeros(4, 3).double()), "weight has"),
        (lambda t: t["weight"].view(-1)[5].fill_(float("nan")), "weight holds numbers that are not finite"),
    ],
)
def test_other_tensors_are_refused(change, said):
    """Tensors that are missing, unknown, of another shape or type, or not finite are named."""
    found = tensors()
    change(found)
    with pytest.raises(CheckpointError, match=said):
        checkpoint.check_tensors(found, tensors(), Path("here"))
    checkpoint.check_tensors(tensors(), tensors(1), Path("here"))


POINTS = [(os, "fsync"), (Path, "rename"), (Path, "mkdir"), (shutil, "rmtree")]  # where a save may be cut off


def break_at(monkeypatch, number: int, error: BaseException, after: bool) -> list[int]:
    """Raise in place of (or after) the call of that number to any of the points; the count of calls so far."""
    seen = [0]

    def wrap(function: Callable) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            seen[0] += 1
            if seen[0] == number and not after:
                raise error
            value = function(*args, **kwargs)
            if seen[0] == number:
                raise error
            return value

        return call

    for owner, name in POINTS:
        monkeypatch.setattr(owner, name, wrap(getattr(owner, name)))
    return seen


def attempts(monkeypatch, folder: Path, error: BaseException, after: bool) -> Iterator[BaseException | None]:
    """Save the second checkpoint again and again, broken off one point later each time, until it is not broken."""
    for number in range(1, 50):
        with monkeypatch.context() as patch:
            seen = break_at(patch, number, error, after)
            try:
                checkpoint.write(folder.parent / "step_2", tensors(2), facts(8))
            except (Crash, ResourceError) as caught:
                yield caught
        if seen[0] < number:
            assert number > 4, "the points are not where a save passes"
            return


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_inside_a_save_leaves_the_previous_one(folder, monkeypatch, after):
    """Cut off before or after any sync, rename or removal, a save leaves the checkpoint before it whole."""
    for _ in attempts(monkeypatch, folder, Crash(), after):
        assert sound(folder)
        second = folder.parent / "step_2"
        assert not second.exists() or sound(second, 2, 8)
        shutil.rmtree(second, ignore_errors=True)
        checkpoint.write(folder.parent / "step_3", tensors(3), facts(9))
        files.sweep(folder.parent, ["step_1", "step_3"])
        assert sorted(p.name for p in folder.parent.iterdir()) == ["step_1", "step_3"]


@pytest.mark.parametrize(("number", "said"), [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "no permission")])
def test_a_full_disk_is_a_sentence(folder, monkeypatch, number, said):
    """Where the disk refuses, the error says so, the previous checkpoint is whole and no half one lies about."""
    for error in attempts(monkeypatch, folder, OSError(number, "refused"), after=False):
        assert isinstance(error, ResourceError) and said in str(error)
        assert sound(folder)
        names = {p.name for p in folder.parent.iterdir()}
        assert names == {"step_1"} or (names == {"step_1", "step_2"} and sound(folder.parent / "step_2", 2, 8))
        shutil.rmtree(folder.parent / "step_2", ignore_errors=True)


def test_a_full_disk_while_writing_a_chunk(tmp_path, monkeypatch):
    """The same for replay: the chunks before are as they were."""
    path = tmp_path / "replay" / "1.zst"
    mark = checkpoint.write_chunk(path, {"a": torch.arange(5)})
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(ResourceError, match="the disk is full"):
        checkpoint.write_chunk(tmp_path / "replay" / "2.zst", {"a": torch.arange(5)})
    assert torch.equal(checkpoint.read_chunk(path, mark)["a"], torch.arange(5))
    assert not (tmp_path / "replay" / "2.zst").exists()


def test_sweep_keeps_what_is_named(tmp_path):
    """All entries but the named ones go, files and folders, what an interrupted save left among them."""
    for name in (*NAMES, ".tmp-step_4-77"):
        checkpoint.write(tmp_path / name, tensors(), facts())
    (tmp_path / ".tmp-1.zst").write_bytes(b"half")
    files.sweep(tmp_path, ["step_2", "step_9"])
    assert [p.name for p in tmp_path.iterdir()] == ["step_2"]
    files.sweep(tmp_path / "nothing", [])
