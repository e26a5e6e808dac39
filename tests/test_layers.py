"""The shape of the source: who may import whom, what is never called, how long a file may be."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import sacd

SOURCE = Path(sacd.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
NAMES = {".".join(("sacd", *p.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): p for p in FILES}
LEAVES = {  # module: the modules of this package it may import
    "errors": (), "rng": (), "machine": (), "kernels": (), "kernels.cpu": ("machine",),
    "kernels.activation": (), "kernels.gradient": (), "kernels.dense_triton": (), "kernels.frames_triton": (),
    "kernels.frames": ("kernels", "kernels.cpu", "kernels.frames_triton"),
    "kernels.adam_triton": ("kernels.gradient",), "kernels.conv_triton": ("kernels.gradient",),
    "kernels.adam": ("kernels", "kernels.gradient", "kernels.adam_triton"),
    "kernels.conv": ("kernels", "kernels.activation", "kernels.cpu", "kernels.gradient", "kernels.conv_triton"),
    "kernels.dense": ("kernels", "kernels.activation", "kernels.gradient", "kernels.dense_triton"),
    "types": (), "losses": (), "signals": ("errors",),
    "schedules": ("errors",), "heads": ("losses",), "optim": ("kernels", "kernels.adam", "kernels.gradient"),
    "presets": (), "config": ("errors", "schedules", "presets"),
    "clock": ("config",), "checkpoint": ("errors", "files"), "files": ("errors",),
    "kernels.mirror": ("types", "kernels", "kernels.frames", "kernels.mirror_triton"),
    "kernels.lookup": ("types",), "kernels.mirror_triton": ("types", "kernels.frames"),
    "replay": ("types", "kernels", "kernels.frames", "kernels.lookup", "kernels.mirror"),
    "report.paper": ("envs.names",), "report.scores": ("report.paper",),
    "report.compare": ("report.paper", "report.scores"),
    "console": (), "engine": ("errors", "graph", "machine"),
}  # fmt: skip
CALLED = ("eval", "exec", "compile", "__import__", "torch.load", "torch.save", "np.load", "os.system", "os.popen")
NEVER = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "yaml", "runpy", "code"}


def imports(path: Path) -> set[str]:
    """Modules that a file imports anywhere, those for type checkers left out; `from a import b` gives a and a.b."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: a relative import"
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    return found


def own(module: str) -> set[str]:
    """Modules of this package that one of them imports, without the package's name."""
    found = imports(NAMES[f"sacd.{module}"]) & NAMES.keys() - {"sacd"}
    return {name.removeprefix("sacd.") for name in found}


def touches(module: str, *others: str) -> set[str]:
    """Of its imports, those that are or lie in `others`."""
    return {m for m in own(module) for o in others if m == o or m.startswith(f"{o}.")}


ALL = sorted(name.removeprefix("sacd.") for name in NAMES if name != "sacd")


@pytest.mark.parametrize("module", LEAVES)
def test_leaves_import_nothing_above_them(module):
    """The pure modules import what is named for them and no more."""
    assert own(module) <= set(LEAVES[module])


@pytest.mark.parametrize("module", ["nets", "heads", "init", "optim"])
def test_networks_know_no_agent(module):
    """Networks and what they are made with know neither agents nor environments nor the loop."""
    assert not touches(module, "agents", "envs", "replay", "train", "saved", "commands")


@pytest.mark.parametrize("module", [m for m in ALL if m.startswith(("envs", "replay", "agents"))])
def test_the_loop_is_above_its_owners(module):
    """Replay, environments and agents do not know the loop; the first two do not know the agents."""
    assert not touches(module, "train", "saved", "commands", "cli", "log")
    assert module.startswith("agents") or not touches(module, "agents", "nets", "losses")
    assert module.startswith("envs") or not touches(module, "envs")


@pytest.mark.parametrize("module", [m for m in ALL if m.startswith("report")])
def test_reports_read_files_only(module):
    """Reports import neither torch nor what trains."""
    assert not touches(module, "train", "saved", "agents", "nets", "replay", "envs.pool", "envs.gym", "envs.atari")
    assert not {m for m in imports(NAMES[f"sacd.{module}"]) if m.partition(".")[0] in ("torch", "ale_py")}


def test_only_the_top_sees_agents():
    """The algorithm is known to the loop, its checkpoints, the scores and the evaluation, and to nobody else."""
    seeing = {m for m in ALL if touches(m, "agents") and not m.startswith("agents")}
    assert seeing <= {"train", "saved", "scoring", "evaluate"}
    assert {"train", "evaluate"} <= seeing


def test_there_is_no_cycle():
    """Imports have a direction: no module imports itself by way of others."""
    graph = {m: own(m) for m in ALL}
    for module in ALL:  # a package's __init__ gathers its parts; they do not import it
        graph[module] -= {module}
    done: set[str] = set()
    while ready := {m for m in graph.keys() - done if graph[m] <= done}:
        done |= ready
    assert graph.keys() == done, f"in a cycle: {graph.keys() - done}"


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("cli", "torch numpy gymnasium ale_py matplotlib"),
        ("config", "torch numpy gymnasium"),
        ("envs.names", "torch ale_py"),
        ("envs.gym", "torch ale_py"),
        ("report", "torch gymnasium ale_py"),
    ],
)
def test_what_is_not_loaded(module, absent):
    """Importing a module loads nothing heavy that it has no use for, by whatever way."""
    code = f"import sys, sacd.{module}; print(*(m for m in {absent.split()!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_runs_code_from_files(path):
    """No module can execute what a file says: no pickle, no torch.load, no eval, no YAML."""
    assert not {m.partition(".")[0] for m in imports(path)} & NEVER
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in CALLED
            assert not any(k.arg in ("shell", "allow_pickle") for k in node.keywords), called
    words = {
        t.string for t in tokenize.generate_tokens(io.StringIO(path.read_text()).readline) if t.type == tokenize.NAME
    }
    assert not words & (NEVER - {"code"})


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_are_short_and_say_what_they_are(path):
    """No file has more than 250 lines, and each that has any begins with what it is."""
    text = path.read_text()
    assert len(text.splitlines()) <= 250
    assert not text or ast.get_docstring(ast.parse(text))
