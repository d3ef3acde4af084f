"""The code that people will copy out of README.md and docs/ runs as it stands there."""

from __future__ import annotations

import doctest
import json
import re
import runpy
import shlex
import warnings
from pathlib import Path

import pytest

from skactive.cli import main
from skactive.posterior._registry import source

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.rst") if not {"generated", "auto_examples"} & set(path.parts))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what an example writes does not land in the checkout


@pytest.mark.parametrize("of_column", [0, 1], ids=["default", "uniform"])
def test_readme_loop_runs_without_a_warning_and_prints_the_accuracies_shown(of_column, capsys):
    code, shown = re.findall(r"^```(?:python|text)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    if of_column:
        code = code.replace("StochasticBatchQuery(random", 'StochasticBatchQuery(sampler="uniform", random')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(code, "README.md", "exec"), {})
    printed = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    expected = [float(re.findall(r"0\.\d+", line)[of_column]) for line in shown.splitlines()]
    # One of 600 test rows is 0.002; a pick that rounding turns on another processor moves a few of them.
    assert printed == pytest.approx(expected, abs=0.03)


LONG = {"experiments", "net", "noise", "regression"}


class WithShell(doctest.DocTestParser):
    """Commands of console blocks run, too: ``$ skactive ...``, with what they print below."""

    command = re.compile(r"^( +)\$ skactive (.*)\n((?:\1(?!\$).*\S.*\n)*)", re.MULTILINE)

    def get_examples(self, string, name="<string>"):
        examples = super().get_examples(string, name)
        for found in self.command.finditer(string):
            line = string.count("\n", 0, found.start())
            examples.append(doctest.Example(f"_shell({found[2]!r})", found[3], lineno=line, indent=0))
        return sorted(examples, key=lambda example: example.lineno)

    def get_doctest(self, string, globs, name, filename, lineno):
        return doctest.DocTest(self.get_examples(string, name), globs, name, filename, lineno, string)


def shell(line: str) -> None:
    assert not line.startswith("label "), "this goes on until Ctrl-C: show it as text"
    assert main(shlex.split(line)) == 0


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page.stem in LONG else []) for page in PAGES],
    ids=[page.relative_to(ROOT).as_posix() for page in PAGES],
)
def test_page_runs_on_its_own(page):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, _ = doctest.testfile(
        str(page),
        module_relative=False,
        optionflags=flags,
        encoding="utf-8",
        parser=WithShell(),
        extraglobs={"_shell": shell},
    )
    assert failed == 0


WITHOUT_CODE = {"index", "glossary", "bibliography"}  # lists of pages, of words and of sources have nothing to run


def test_every_user_guide_page_has_examples():
    for page in (ROOT / "docs" / "user_guide").glob("*.rst"):
        has_code = ">>> " in page.read_text(encoding="utf-8")
        assert has_code or page.stem in WITHOUT_CODE, page


def test_lines_of_code_in_the_user_guide_fit_a_page():
    for page in (ROOT / "docs" / "user_guide").glob("*.rst"):
        code = re.findall(r"^(?:>>>|\.\.\.) .*$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert [line for line in code if len(line) > 100] == [], page


def test_every_cited_source_is_in_the_bibliography():
    entries = (ROOT / "docs" / "user_guide" / "bibliography.rst").read_text(encoding="utf-8").split("\n* ")
    entries = [re.sub(r"\s+", " ", entry) for entry in entries]
    texts = [*(ROOT / "skactive").rglob("*.py"), *(ROOT / "docs" / "user_guide").glob("*.rst")]
    cited = {
        cite
        for path in texts
        for cite in re.findall(
            r"([A-Z][\w-]+)(?: et al\.)?,? \(?(1[89]\d\d|20[0-2]\d)\)",
            re.sub(r"\s+", " ", path.read_text(encoding="utf-8")),
        )
    }
    assert len(cited) > 40
    found = {(name, year) for name, year in cited if any(name in e and f"({year})" in e for e in entries)}
    assert cited - found == set(), "add them to docs/user_guide/bibliography.rst"


def test_the_table_of_sources_names_every_type_that_has_one():
    page = (ROOT / "docs" / "user_guide" / "draws.rst").read_text(encoding="utf-8")
    kinds = [
        kind for kind in source.registry if kind.__module__.split(".")[0] in ("sklearn", "modAL", "skorch", "torch")
    ]
    assert len(kinds) > 10
    assert [kind.__name__ for kind in kinds if f"``{kind.__name__}``" not in page] == []


def test_the_tables_of_benchmarks_are_those_of_their_results():
    tables, folder = runpy.run_path(str(ROOT / "tests" / "benchmarks" / "tables.py")), ROOT / "docs" / "benchmarks"
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    made = {name: tables["as_rst"](result) for name, result in results.items()} | {
        "summary": tables["summary"](results)
    }
    assert [name for name, table in made.items() if (folder / f"{name}.inc").read_text(encoding="utf-8") != table] == []
