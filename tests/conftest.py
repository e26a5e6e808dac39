"""Every test runs on one thread: the bits of a sum depend on the number, and test processes share the cores."""

import os
from pathlib import Path
from typing import Any

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported, here and in the processes that tests start
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton's kernels without a GPU
pytest.register_assert_rewrite("paperlike", "streams", "tiny")


@pytest.fixture
def run(tmp_path) -> Path:
    """Where a run may be made."""
    return tmp_path / "run"


@pytest.fixture(scope="session")
def whole(tmp_path_factory) -> dict[str, Any]:
    """The results of the tiny CartPole run that nothing disturbed."""
    from tiny import CARTPOLE, main, results, words

    run = tmp_path_factory.mktemp("whole") / "run"
    assert main(words("CartPole-v1", run, **CARTPOLE)) == 0
    return results(run)
