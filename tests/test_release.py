"""What goes out with a release: versions that agree, the files of both archives, the changelog, conda's recipe."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import skactive

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
SDIST = {name.strip("/") for name in PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
ALWAYS_IN_SDIST = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
MADE_HERE = {"__pycache__", "_build", "auto_examples", "generated", "sg_execution_times.rst"}
changelog = runpy.run_path(str(ROOT / "docs" / "changelog.py"))["main"]


def read(*parts: str) -> str:
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


# --- versions and metadata ------------------------------------------------------------------------


def test_all_files_name_the_same_version():
    cited = re.findall(r"^ *version: (.+)$", read("CITATION.cff"), re.MULTILINE)
    recipe = re.findall(r'^  version: "(.+)"$', read("conda", "recipe.yaml"), re.MULTILINE)
    assert cited + recipe == [skactive.__version__] * 3


@pytest.mark.skipif(".dev" in skactive.__version__, reason="a version between two releases")
def test_a_version_that_goes_out_has_a_section_in_the_changelog(capsys):
    changelog(["--show", skactive.__version__])
    assert capsys.readouterr().out.strip()


def test_the_recipe_asks_for_what_pyproject_asks_for():
    names = {"modal-python": "modAL-python", "pytorch": "torch"}  # conda's name: that of pyproject.toml
    run = re.search(r"^  run:\n((?:    - .*\n)+)", read("conda", "recipe.yaml"), re.MULTILINE)[1]
    asked = dict(line.strip("- ").split(" ") for line in run.splitlines())
    assert asked.pop("python") == PROJECT["requires-python"]
    assert {f"{names.get(name, name)}{version}" for name, version in asked.items()} == set(PROJECT["dependencies"])


# --- the archives ---------------------------------------------------------------------------------


def test_the_sdist_holds_every_file_that_a_test_names():
    named = set()
    for path in (ROOT / "tests").rglob("*.py"):
        named |= set(re.findall(r'ROOT / "(\.?\w[\w.]*)', path.read_text(encoding="utf-8")))
    assert named
    assert named <= SDIST | ALWAYS_IN_SDIST
    assert all((ROOT / name).exists() for name in SDIST)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The names in the wheel and in the sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        in_wheel = set(wheel.namelist())
    with tarfile.open(next(folder.glob("*.tar.gz"))) as sdist:
        in_sdist = {name.partition("/")[2] for name in sdist.getnames()}
    return in_wheel, in_sdist


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(archives):
    in_wheel, _ = archives
    code = {path.relative_to(ROOT).as_posix() for path in (ROOT / "skactive").rglob("*.py")}
    data = {f"skactive/datasets/data/{name}" for name in ("README.md", "hpc.csv.gz", "penguins.csv.gz")}
    page = {f"skactive/campaign/_page/{name}" for name in ("live.js", "page.css", "page.html", "page.js")}
    info = f"skactive-{skactive.__version__}.dist-info/"
    about = {f"{info}{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    licenses = {f"{info}licenses/{name}" for name in PROJECT["license-files"]}
    assert in_wheel == code | data | page | about | licenses | {"skactive/__init__.pyi", "skactive/py.typed"}


@pytest.mark.slow
def test_the_sdist_holds_the_sources_and_nothing_that_was_made_here(archives):
    in_wheel, in_sdist = archives
    assert {name for name in in_wheel if name.startswith("skactive/")} <= in_sdist
    assert {Path(name).parts[0] for name in in_sdist} == SDIST | ALWAYS_IN_SDIST
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "user_guide").iterdir()}
    assert tests | pages | {".ci/run", "docs/conf.py", "docs/changelog.py"} <= in_sdist
    assert [name for name in in_sdist if MADE_HERE & set(Path(name).parts)] == []


# --- the changelog --------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path):
    """A checkout with one release and two fragments."""
    folder = tmp_path / "docs" / "changelog.d"
    folder.mkdir(parents=True)
    (folder / "README").write_text("Fragments.\n")
    (folder / "a.fixed.md").write_text("One thing.\n")
    (folder / "b.added.md").write_text("Another,\nin two lines.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\nIntroduction.\n\n## 0.1.0\n\nAll of it.\n")
    return tmp_path


def test_fragments_become_the_newest_section_and_are_deleted(checkout):
    changelog(["0.2.0"], checkout)
    new = "## 0.2.0\n\n### Added\n\n- Another,\n  in two lines.\n\n### Fixed\n\n- One thing.\n"
    assert (checkout / "CHANGELOG.md").read_text() == f"# Changelog\n\nIntroduction.\n\n{new}\n## 0.1.0\n\nAll of it.\n"
    assert [path.name for path in (checkout / "docs" / "changelog.d").iterdir()] == ["README"]


def test_the_fragments_of_this_checkout_have_names_that_the_next_release_takes():
    fragments = runpy.run_path(str(ROOT / "docs" / "changelog.py"))["fragments"]
    fragments(ROOT / "docs" / "changelog.d")  # another name is an error
