"""Files on a disk that may be full, forbidden or cut off: written whole or not at all, and checked when read."""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sacd.errors import CheckpointError, ResourceError


def write_file(path: Path, data: bytes) -> None:
    """Bytes on the disk, not in its cache."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """A file with new content, whole or not at all."""
    part = path.with_name(f".tmp-{path.name}")
    write_file(part, data)
    part.rename(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """The folder's entries on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fingerprint(data: bytes) -> dict[str, Any]:
    """Size and SHA-256."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def read_file(path: Path, wanted: dict[str, Any]) -> bytes:
    """A file's bytes, if they are the ones that were written."""
    try:
        if path.stat().st_size != wanted["bytes"]:
            raise CheckpointError(f"{path} is truncated: {path.stat().st_size} bytes of {wanted['bytes']}.")
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from error
    if fingerprint(data) != wanted:
        raise CheckpointError(f"{path} was altered: its SHA-256 is not the manifest's.")
    return data


def sweep(folder: Path, keep: Iterable[str]) -> None:
    """Delete all entries but those to keep, and what an interrupted save left."""
    kept = set(keep)
    for entry in folder.iterdir() if folder.exists() else ():
        if entry.name not in kept:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the disk refuses in here becomes a sentence about this path."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def storage_error(error: OSError, path: Path) -> ResourceError:
    """A sentence for what the disk refused."""
    what = {errno.ENOSPC: "the disk is full", errno.EACCES: "no permission", errno.EROFS: "the disk is read-only"}
    reason = what.get(error.errno or 0, error.strerror or str(error))
    return ResourceError(f"cannot write {path}: {reason}. Nothing that was saved before is lost.")
