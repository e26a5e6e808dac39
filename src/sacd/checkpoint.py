"""Crash-safe folders of tensors: safetensors + JSON, hashed, atomic, never pickle.

A folder holds `tensors.safetensors` and, written last, `manifest.json` with the size and SHA-256 of every file it
speaks for (a flipped bit in a safetensors file loads silently otherwise). It is written under a temporary name, synced
and renamed, so a crash at any moment leaves the previous folders as they were. Replay is an append-only log of
compressed chunks beside the checkpoints; a save writes only what is new.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
import zstandard
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as format_tensors
from torch import Tensor

from sacd.errors import CheckpointError
from sacd.files import fingerprint, read_file, replace_file, storage_error, sync_folder, write_file, writing

FORMAT = 1
TENSORS, MANIFEST = "tensors.safetensors", "manifest.json"


def write(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any], files: dict[str, Any] | None = None) -> None:
    """A folder of tensors and facts, whole or not at all. `files` are further files the manifest speaks for."""
    part = folder.with_name(f".tmp-{folder.name}-{os.getpid()}")
    data = format_tensors({k: t.contiguous() for k, t in tensors.items()})
    try:
        shutil.rmtree(part, ignore_errors=True)  # by a process of the same number that died here
        part.mkdir(parents=True)
        write_file(part / TENSORS, data)
        manifest = {"format": FORMAT, **facts, "files": {TENSORS: fingerprint(data), **(files or {})}}
        write_file(part / MANIFEST, json.dumps(manifest | {"seal": seal(manifest)}, indent=1).encode())
        if folder.exists():  # a save of the same step again
            shutil.rmtree(folder)
        part.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise storage_error(error, folder) from error


def read_manifest(folder: Path) -> dict[str, Any]:
    """A folder's manifest, its format checked."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        version, _, stamped = manifest["format"], manifest["files"][TENSORS], manifest.pop("seal")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{folder / MANIFEST} is missing or damaged ({type(error).__name__}).") from error
    if version != FORMAT:
        raise CheckpointError(f"{folder} has format {version}; this version of sacd reads format {FORMAT}.")
    if stamped != seal(manifest):
        raise CheckpointError(f"{folder / MANIFEST} was altered: its seal does not fit.")
    return manifest


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and manifest of a folder, with its hash checked first."""
    manifest = read_manifest(folder)
    data = read_file(folder / TENSORS, manifest["files"][TENSORS])
    return parse_tensors(data), manifest


def write_chunk(path: Path, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """A compressed chunk of replay; its fingerprint."""
    data = zstandard.ZstdCompressor(level=1).compress(format_tensors(tensors))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    return fingerprint(data)


def read_chunk(path: Path, wanted: dict[str, Any]) -> dict[str, Tensor]:
    """A chunk of replay, its hash checked first."""
    return parse_tensors(zstandard.ZstdDecompressor().decompress(read_file(path, wanted)))


def check_tensors(found: dict[str, Tensor], wanted: dict[str, Tensor], where: Path) -> None:
    """Refuse tensors that are not the ones this run has, or not finite."""
    for name in sorted(found.keys() | wanted.keys()):
        if name not in found or name not in wanted:
            raise CheckpointError(f"{where}: tensor {name} is {'missing' if name in wanted else 'unknown'}.")
        if found[name].shape != wanted[name].shape or found[name].dtype != wanted[name].dtype:
            shapes = f"{tuple(found[name].shape)}; this run needs {tuple(wanted[name].shape)}"
            raise CheckpointError(f"{where}: tensor {name} has shape {shapes}.")
    require_finite(found, where)


def require_finite(tensors: dict[str, Tensor], where: Path) -> None:
    """Refuse a number that is not finite."""
    for name, t in tensors.items():
        if t.is_floating_point() and not torch.isfinite(t).all():
            raise CheckpointError(f"{where}: tensor {name} holds numbers that are not finite.")


def seal(manifest: dict[str, Any]) -> str:
    """SHA-256 of a manifest's content, so that a changed digit in it is noticed like one in the tensors."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True, allow_nan=False).encode()).hexdigest()
