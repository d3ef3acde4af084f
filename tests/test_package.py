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
PACKAGE = ROOT / "skactive"
FILES = sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    """`query._base` of skactive/query/_base.py, `query` of skactive/query/__init__.py, `` of the package's own."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {dotted(path): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
ROOMS = {dotted(path) for path in FILES if path.name == "__init__.py"}  # folders
MODULES = sorted(TREES.keys() - {"", "__main__"})
PUBLIC = sorted(name for name in MODULES if not any(part.startswith("_") for part in name.split(".")))
HEAVY = ["dask", "matplotlib", "modAL", "pandas", "skorch", "torch", "tqdm"]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout.strip()


def own_imports(name: str) -> set[str]:
    """Modules of the package that the module of this dotted name imports, anywhere in its text."""
    found = set()
    here = name.split(".") if name in ROOMS else name.split(".")[:-1]
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "skactive"):
            base = here[: len(here) - node.level + 1] if node.level else []
            inside = [*base, *(node.module or "").removeprefix("skactive").strip(".").split(".")]
            module = ".".join(filter(None, inside))
            both = {alias.name: f"{module}.{alias.name}".strip(".") for alias in node.names}
            found |= {full if full in TREES else module for full in both.values()}
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("skactive.") for alias in node.names if alias.name.startswith("skactive.")
            }
    return found - {""}


def imported_libraries(tree: ast.AST) -> set[str]:
    """Other packages that a module imports, anywhere in its text."""
    nodes = list(ast.walk(tree))
    found = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return found | {node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


# --- importing ------------------------------------------------------------------------------------


def test_importing_skactive_loads_nothing_heavy():
    assert run(f"import skactive, sys; print([m for m in {HEAVY} if m in sys.modules])") == "[]"


# --- names ----------------------------------------------------------------------------------------


def constants_classes_functions(name: str) -> tuple[int, str]:
    """The order in which ruff sorts `__all__`."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def test_all_is_sorted_and_importable():
    modules = [import_module(name) for name in ("skactive", *(f"skactive.{name}" for name in PUBLIC))]
    unsorted = [m.__name__ for m in modules if list(m.__all__) != sorted(m.__all__, key=constants_classes_functions)]
    missing = [f"{m.__name__}.{name}" for m in modules for name in m.__all__ if getattr(m, name, None) is None]
    assert (unsorted, missing) == ([], [])


def test_public_names_of_a_module_are_in_all():
    defined = {
        f"{name}.{node.name}"
        for name in PUBLIC
        for node in TREES[name].body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    listed = {name: import_module(f"skactive.{name}").__all__ for name in PUBLIC}
    assert defined <= {f"{name}.{exported}" for name, exports in listed.items() for exported in exports}


def test_type_checkers_see_the_public_names_of_skactive_in_the_modules_that_python_finds_them_in():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(stub) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: node.module or alias.name for node in imports for alias in node.names}
    at_top = {name for name in PUBLIC if "." not in name}
    assert seen.keys() == {*skactive.__all__, *at_top}
    for name, module in seen.items():
        home = import_module(f"skactive.{module}")
        assert getattr(skactive, name) is (home if name == module else getattr(home, name))


def test_public_modules_are_attributes_of_the_package():
    names = [name for name in PUBLIC if "." not in name]
    assert dir(skactive) == sorted({*skactive.__all__, *names, "__version__"})
    assert [skactive.__getattr__(name).__name__[9:] for name in names] == names  # as before their first import


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = skactive.no_such_name


def test_public_functions_and_classes_are_in_the_api_reference():
    reference = "".join((ROOT / "docs" / f"{page}.rst").read_text(encoding="utf-8") for page in ("api", "api_authors"))
    listed = set(re.findall(r"^   ([\w.]+)$", reference, re.MULTILINE))
    at_top = {id(getattr(skactive, name)): name for name in skactive.__all__}
    exported = {
        f"{module}.{name}": getattr(import_module(f"skactive.{module}"), name)
        for module in PUBLIC
        for name in import_module(f"skactive.{module}").__all__
        if not name.isupper()
    }
    missing = {name for name, thing in exported.items() if name not in listed and at_top.get(id(thing)) not in listed}
    assert missing == set()


# --- the arrows of import -------------------------------------------------------------------------


# The rooms of the house, from the ground up. A room imports from the lines above its own, and from its left.
FLOORS = [
    ["_utils", "_containers", "_modal"],  # the ground
    ["scores", "samplers", "_dropout", "datasets"],  # numbers in, numbers out
    ["posterior", "mc_dropout", "last_layer", "risk"],  # models and their draws
    ["query", "experiment"],  # the loop
    ["batchbald", "badge", "acsfw", "kcenter", "causal", "stopping", "campaign"],  # methods on top
    ["plotting", "cli", "__main__"],  # for people
]
BELOW = {
    room: {*(other for line in FLOORS[:i] for other in line), *line[:j]}
    for i, line in enumerate(FLOORS)
    for j, room in enumerate(line)
}
IMPORTS = {name: own_imports(name) for name in TREES if name}


def room_of(name: str) -> str:
    return name.split(".")[0]


def test_every_module_stands_in_a_room_of_the_table():
    assert {room_of(name) for name in IMPORTS} == BELOW.keys()


def test_a_room_imports_only_from_rooms_below_it():
    arrows = {(name, other) for name, others in IMPORTS.items() for other in others if room_of(other) != room_of(name)}
    assert {(name, other) for name, other in arrows if room_of(other) not in BELOW[room_of(name)]} == set()


def test_imports_go_round_in_no_circle():
    list(graphlib.TopologicalSorter(IMPORTS).static_order())  # CycleError names the circle


HOMES = dict.fromkeys(("dask", "narwhals", "polars"), "_containers") | {"modAL": "_modal"}
HOMES |= dict.fromkeys(("sqlite3", "tqdm"), "_utils")


def test_one_room_knows_a_library():
    knowing = {(library, room_of(name)) for name, tree in TREES.items() for library in imported_libraries(tree)}
    assert {(library, room) for library, room in knowing if HOMES.get(library, room) not in (room, "__main__")} == set()


# --- what no file of the package may hold ---------------------------------------------------------


# numpy.random holds these beside its global functions.
NUMPY_RANDOM = {"BitGenerator", "Generator", "PCG64", "Philox", "RandomState", "SeedSequence", "default_rng"}
# Functions that draw from torch's global generator unless they are given one.
TORCH_DRAWS = {"rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "normal", "poisson"}
TORCH_DRAWS |= {"rand_like", "randn_like"}
TORCH_IN_PLACE = {"bernoulli_", "uniform_", "normal_", "exponential_", "random_", "geometric_", "cauchy_"}
TORCH_GLOBAL = {"manual_seed", "seed", "set_rng_state", "fork_rng", "set_default_dtype", "set_default_device"}


# Recurrent and attention layers take no generator: for their sake the global one is set aside, seeded and put back. So
# it is in experiments, for estimators and strategies of users that know no other.
BORROWED = {
    ("_dropout._random_calls", "torch.random.fork_rng"),
    ("_dropout._random_calls", "torch.cuda.manual_seed"),
    # what others drew from, to be put back
    ("_dropout._first_look", "import random"),
    ("_dropout._first_look", "np.random.mtrand"),
    ("_utils.randomness", "torch.random.fork_rng"),
    ("_utils.randomness", "import random"),
    ("_utils.randomness", "np.random.get_state"),
    ("_utils.randomness", "np.random.seed"),
    ("_utils.randomness", "np.random.set_state"),
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


def test_no_global_random_state():
    found = [(name, line, what) for name, tree in TREES.items() for line, what in global_random_state(tree)]
    assert [(name, line, what) for name, line, what in found if (name, what) not in BORROWED] == []


def test_the_search_for_global_random_state_finds_it():
    lines = ["np.random.rand(3)", "torch.manual_seed(0)", "torch.rand(3)", "x.normal_()", "import random"]
    assert [len(global_random_state(ast.parse(line))) for line in lines] == [1] * 5


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


def test_constraints_pin_what_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = project["dependencies"] + [line for extra in project["optional-dependencies"].values() for line in extra]
    names = {re.match(r"[\w.-]+", line).group().lower() for line in asked}
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    assert names <= pinned
