"""The package as a whole: what importing it costs, its names, which module may import which, what no file may hold."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import skactive

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "skactive").rglob("*.py"))
MODULES = sorted(path.stem for path in FILES if path.stem not in {"__init__", "__main__"})
TREES = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
HEAVY = ["dask", "matplotlib", "modAL", "pandas", "skorch", "torch"]

SURFACE = {"mc_dropout", "experiment", "plotting"}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout.strip()


def own_imports(tree: ast.AST) -> set[str]:
    """Modules of the package that a module of it imports, anywhere in its text."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "skactive"):
            inside = (node.module or "").removeprefix("skactive").strip(".")
            found |= {inside.split(".")[0]} if inside else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("skactive.")}
    return found


def imported_libraries(tree: ast.AST) -> set[str]:
    """Other packages that a module imports, anywhere in its text."""
    nodes = list(ast.walk(tree))
    found = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return found | {node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


# --- importing ------------------------------------------------------------------------------------


def test_importing_skactive_loads_nothing_heavy():
    assert run(f"import skactive, sys; print([m for m in {HEAVY} if m in sys.modules])") == "[]"


def test_importing_skactive_is_faster_than_importing_scipy_stats():
    # A comparison within one process, because the seconds themselves depend on the machine.
    code = """
import time
t0 = time.perf_counter(); import skactive
t1 = time.perf_counter(); import scipy.stats
t2 = time.perf_counter(); print(t1 - t0 < t2 - t1)
"""
    assert run(code) == "True"


def test_dir_lists_what_can_be_imported_without_loading_it():
    assert run(f"import skactive, sys; dir(skactive); print([m for m in {HEAVY} if m in sys.modules])") == "[]"
    assert set(skactive.__all__) <= set(dir(skactive))


def test_version_is_a_literal_that_a_build_can_read():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", skactive.__version__)
    assert f'__version__ = "{skactive.__version__}"' in (ROOT / "skactive" / "__init__.py").read_text(encoding="utf-8")
    assert f"\nversion: {skactive.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


# --- names ----------------------------------------------------------------------------------------


def constants_classes_functions(name: str) -> tuple[int, str]:
    """The order in which ruff sorts `__all__`."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("name", ["skactive", *(f"skactive.{stem}" for stem in MODULES if not stem.startswith("_"))])
def test_all_is_sorted_and_importable(name):
    module = import_module(name)
    assert list(module.__all__) == sorted(module.__all__, key=constants_classes_functions)
    for exported in module.__all__:
        assert getattr(module, exported) is not None


@pytest.mark.parametrize("name", [f"skactive.{stem}" for stem in MODULES if not stem.startswith("_")])
def test_public_names_of_a_module_are_in_all(name):
    module = import_module(name)
    tree = TREES[name.removeprefix("skactive.") + ".py"]
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {public for public in defined if not public.startswith("_")} <= set(module.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = skactive.no_such_name


def test_typed_marker_is_there():
    assert (ROOT / "skactive" / "py.typed").is_file()


# --- the arrows of import -------------------------------------------------------------------------


GRAPH = {stem: own_imports(TREES[f"{stem}.py"]) for stem in MODULES}


def test_imports_go_round_in_no_circle():
    list(graphlib.TopologicalSorter(GRAPH).static_order())  # CycleError names the circle


VALIDATION = [stem for stem in MODULES if stem.startswith("_validation")]


def reaches(stem: str) -> set[str]:
    """What importing a module of the package imports of it, directly or not."""
    return set().union(GRAPH[stem], *(reaches(other) for other in GRAPH[stem]))


@pytest.mark.parametrize("stem", [*VALIDATION, "scores", "samplers", "_chunks", "_thinning", "_modal"])
def test_the_lowest_modules_stand_on_private_ones_alone(stem):
    assert {other for other in reaches(stem) if not other.startswith("_")} == set()


def test_queries_are_imported_only_from_above():
    below = {"posterior", "scores", "samplers", *(stem for stem in MODULES if stem.startswith("_"))}
    assert [stem for stem in below if "query" in reaches(stem)] == []


@pytest.mark.parametrize("stem", MODULES)
def test_nobody_imports_the_surface(stem):
    above = SURFACE if stem not in SURFACE else SURFACE - {"mc_dropout"}
    assert not GRAPH[stem] & above


def test_init_imports_no_other_library():
    assert imported_libraries(TREES["__init__.py"]) <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(("library", "home"), [("dask", "_chunks.py"), ("modAL", "_modal.py")])
def test_one_file_knows_a_library(library, home):
    assert {name for name, tree in TREES.items() if library in imported_libraries(tree)} <= {home, "__main__.py"}


# --- what no file of the package may hold ---------------------------------------------------------


@pytest.mark.parametrize("name", TREES)
def test_no_assert_statement(name):
    assert [node.lineno for node in ast.walk(TREES[name]) if isinstance(node, ast.Assert)] == []


@pytest.mark.parametrize("name", TREES)
def test_no_bare_except(name):
    bare = [node.lineno for node in ast.walk(TREES[name]) if isinstance(node, ast.ExceptHandler) and node.type is None]
    assert bare == []


# numpy.random holds these beside its global functions.
NUMPY_RANDOM = {"BitGenerator", "Generator", "PCG64", "Philox", "RandomState", "SeedSequence", "default_rng"}
# Functions that draw from torch's global generator unless they are given one.
TORCH_DRAWS = {
    "rand",
    "randn",
    "randint",
    "randperm",
    "bernoulli",
    "multinomial",
    "normal",
    "poisson",
    "rand_like",
    "randn_like",
}
TORCH_IN_PLACE = {
    "bernoulli_",
    "uniform_",
    "normal_",
    "exponential_",
    "random_",
    "geometric_",
    "cauchy_",
    "log_normal_",
}
TORCH_GLOBAL = {"manual_seed", "seed", "set_rng_state", "fork_rng", "set_default_dtype", "set_default_device"}


# Recurrent and attention layers take no generator: for their sake the global one is set aside, seeded and put back. So
# it is in experiments, for estimators and strategies of users that know no other.
BORROWED = {
    ("_own_random.py", "torch.random.fork_rng"),
    ("_own_random.py", "torch.cuda.manual_seed"),
    ("_global_random.py", "torch.random.fork_rng"),
    ("_global_random.py", "import random"),
    ("_global_random.py", "np.random.get_state"),
    ("_global_random.py", "np.random.seed"),
    ("_global_random.py", "np.random.set_state"),
}


def global_random_state(tree: ast.AST) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        head, _, tail = text.rpartition(".")
        if head in {"np.random", "numpy.random"} and tail not in NUMPY_RANDOM:
            found.append((node.lineno, text))
        if head in {"torch", "torch.random", "torch.cuda"} and tail in TORCH_GLOBAL:
            found.append((node.lineno, text))
        if isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names):
            found.append((node.lineno, "import random"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, name = ast.unparse(node.func.value), node.func.attr
            draws = (owner == "torch" and name in TORCH_DRAWS) or name in TORCH_IN_PLACE
            if draws and "generator" not in {keyword.arg for keyword in node.keywords}:
                found.append((node.lineno, ast.unparse(node.func) + " without a generator"))
    return found


@pytest.mark.parametrize("name", TREES)
def test_no_global_random_state(name):
    assert [(line, what) for line, what in global_random_state(TREES[name]) if (name, what) not in BORROWED] == []


@pytest.mark.parametrize(
    "line", ["np.random.rand(3)", "torch.manual_seed(0)", "torch.rand(3)", "x.normal_()", "import random"]
)
def test_the_search_for_global_random_state_finds_it(line):
    assert len(global_random_state(ast.parse(line))) == 1


# --- the two commands -----------------------------------------------------------------------------


def test_ci_runs_the_two_commands_of_the_readme():
    done = subprocess.run(["bash", ROOT / ".ci" / "run", "commands"], capture_output=True, text=True, check=True)
    commands = done.stdout.splitlines()
    assert commands == [
        'python -m pip install -c constraints.txt ".[plot]" && python -m skactive',
        'python -m pip install -c constraints.txt ".[test]" && python -m pytest',
    ]
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert all(readme.count(command) == 1 for command in commands)


def test_ci_fails_loudly_without_the_commands(tmp_path):
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_bytes((ROOT / ".ci" / "run").read_bytes())
    (tmp_path / "README.md").write_text("# skactive\n")
    done = subprocess.run(["bash", tmp_path / ".ci" / "run"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "README.md must hold" in done.stderr


def test_constraints_pin_what_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = project["dependencies"] + [line for extra in project["optional-dependencies"].values() for line in extra]
    names = {re.match(r"[\w.-]+", line).group().lower() for line in asked}
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    assert names <= pinned
