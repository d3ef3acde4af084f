"""Whether the tests see faults: seeded mutants of the rooms with arithmetic, each against the tests of its room.

    python tests/mutation.py [--rooms samplers query] [--n 200] [--seed 0] [--jobs 2] [--again FILE] [--out FILE]

A mutant is the package with one comparison, sign, operator, condition or number changed. It is killed if a test of its
room fails (or runs for too long), and survives otherwise; some mutants change nothing and cannot be killed. The same
seed gives the same mutants of the same code, so that two suites can be compared: what survives the tests of one
checkout can be tried with those of another that has the same package (``--again FILE``).

To save time, tests that never come to the changed line are left out: a first pass writes down which tests execute
which lines. A line that a shared fixture executes is tested by all tests of its file, one that runs at import by all.
Needs the package coverage, and forks (no Windows).
"""

from __future__ import annotations

import argparse
import ast
import collections
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {
    "samplers": (["samplers"], ["samplers", "contracts/test_contracts.py"]),
    "scores": (["scores"], ["scores", "contracts/test_contracts.py"]),
    "query": (["query"], ["query", "contracts/test_queries.py"]),
    "risk": (["risk"], ["risk"]),
    "campaign": (["campaign"], ["campaign"]),
    "posterior": (["posterior"], ["posterior"]),
}
"""Folders of the package, and the tests that are theirs."""

TOO_LONG = 600  # seconds for the tests of one mutant

COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Pow: "*"}


@dataclass(frozen=True)
class Mutant:
    """One change: the characters from ``start`` to ``stop`` of a file become ``text``."""

    room: str
    path: str
    start: int
    stop: int
    text: str
    first_line: int
    last_line: int
    was: str


def mutants_of(room: str) -> Iterator[Mutant]:
    for folder in ROOMS[room][0]:
        for path in sorted((ROOT / "skactive" / folder).rglob("*.py")):
            source = path.read_text()
            lines = [0, *itertools.accumulate(len(line) for line in source.splitlines(keepends=True))]
            for node, text in changes(ast.parse(source), source):
                start = lines[node.lineno - 1] + len(
                    source.splitlines()[node.lineno - 1].encode()[: node.col_offset].decode()
                )
                was = ast.get_source_segment(source, node) or ""
                where = str(path.relative_to(ROOT))
                yield Mutant(room, where, start, start + len(was), text, node.lineno, node.end_lineno or 0, was)


def changes(tree: ast.AST, source: str) -> Iterator[tuple[ast.expr, str]]:
    """Expressions that can be changed, with what they become; none of messages, types and docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.AnnAssign) or is_warning(node):
            kept = node.value if isinstance(node, ast.AnnAssign) else None
            skipped |= {id(child) for child in ast.walk(node)} - {id(child) for child in ast.walk(kept or ast.Pass())}
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]
            types = [arg.annotation for arg in arguments] + [node.returns]
            skipped |= {id(child) for of in types if of is not None for child in ast.walk(of)}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and id(node) not in skipped:
            yield from ((node, text) for text in changed(node, source))


def is_warning(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "warn"


def changed(node: ast.expr, source: str) -> Iterator[str]:
    def text(part: ast.expr) -> str:
        return f"({ast.get_source_segment(source, part)})"

    match node:
        case ast.Compare(left, [op], [right]) if type(op) in COMPARISONS:
            yield f"{text(left)} {COMPARISONS[type(op)]} {text(right)}"
        case ast.BinOp(left, op, right) if type(op) in OPERATORS and not is_text(left) and not is_text(right):
            yield f"({text(left)} {OPERATORS[type(op)]} {text(right)})"
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield text(operand)
        case ast.BoolOp(op, values):
            yield (" or " if isinstance(op, ast.And) else " and ").join(text(value) for value in values)
        case ast.IfExp(test, body, other):
            yield f"({text(other)} if {text(test)} else {text(body)})"
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value) | float(value)):
            yield f"({value!r} + 1)"


def is_text(node: ast.AST) -> bool:
    return any(isinstance(part, ast.JoinedStr | ast.List | ast.Tuple) or is_string(part) for part in ast.walk(node))


def is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def chosen(rooms: list[str], n: int, seed: int) -> list[Mutant]:
    """As many of each room, at random: the same of a room whichever other rooms there are."""
    found = []
    for i, room in enumerate(rooms):
        of_room, rng = list(mutants_of(room)), random.Random(f"{room} {seed}")
        found += rng.sample(of_room, min(len(of_room), n // len(rooms) + (i < n % len(rooms))))
    return found


def survivors_in(file: Path) -> list[Mutant]:
    rows = json.loads(file.read_text())
    return [Mutant(**row) for row in rows if not row.pop("outcome").startswith("killed")]


# --- running tests ----------------------------------------------------------------------------------


def load_libraries() -> None:
    """What takes seconds to import is imported once, before processes fork."""
    import coverage, modAL.models, pandas, scipy.stats, sklearn.ensemble, skorch, torch  # noqa

    torch.set_num_threads(1)


def in_a_fork(folder: Path, function, *args) -> int:
    """The status of a function that runs in a process of its own, in a checkout; -1 if it took too long."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        log = os.open(os.devnull, os.O_WRONLY)
        os.dup2(log, 1), os.dup2(log, 2)
        os.chdir(folder)
        sys.path[:0] = [str(folder), str(folder / "tests")]
        try:
            os._exit(int(function(*args)))
        except BaseException:
            os._exit(1)
    ends = time.monotonic() + TOO_LONG
    while time.monotonic() < ends:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


def pytest_of(*arguments: str, plugins: tuple = ()) -> int:
    plain = ["-n=0", "-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    return int(pytest.main([*plain, *arguments], plugins=list(plugins)))


class Contexts:
    """Tells coverage which test, or which shared fixture, executes lines."""

    def __init__(self, measured) -> None:
        self.measured = measured

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        self.now = item.nodeid
        self.measured.switch_context(self.now)
        try:
            return (yield)
        finally:
            self.measured.switch_context("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            return (yield)
        of = fixturedef.baseid
        self.measured.switch_context(f"fixture {of if of.endswith('.py') else ''}")
        try:
            return (yield)
        finally:
            self.measured.switch_context(self.now)


def measure(room: str, data: str) -> int:
    """Run the tests of a room and write down which of them execute which lines."""
    import coverage

    source = [f"skactive/{folder}" for folder in ROOMS[room][0]]
    measured = coverage.Coverage(data_file=data, include=[f"{path}/*" for path in source], branch=False)
    measured.start()
    status = pytest_of(*(f"tests/{path}" for path in ROOMS[room][1]), plugins=(Contexts(measured),))
    measured.stop()
    measured.save()
    return status


def tests_by_line(room: str, folder: Path, data: str) -> dict[tuple[str, int], set[str]]:
    import coverage

    found: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
    lines = coverage.CoverageData(data)
    lines.read()
    for path in lines.measured_files():
        for line, contexts in lines.contexts_by_lineno(path).items():
            found[str(Path(path).relative_to(folder)), line] |= set(contexts)
    return found


def selected(mutant: Mutant, by_line: dict[tuple[str, int], set[str]]) -> list[str]:
    """The tests that may see a mutant: by name, by file, or all of the room."""
    lines = range(mutant.first_line, mutant.last_line + 1)
    contexts = set().union(*(by_line.get((mutant.path, line), set()) for line in lines))
    if not contexts:
        return []
    if contexts & {"", "fixture "}:
        return [f"tests/{path}" for path in ROOMS[mutant.room][1]]
    files = {context.removeprefix("fixture ") for context in contexts if context.startswith("fixture ")}
    alone = {name for name in contexts if not name.startswith("fixture ") and name.partition("::")[0] not in files}
    return [*sorted(alone), *sorted(files)]


def copy_of_checkout(parent: Path, name: str) -> Path:
    folder = parent / name
    for part in ("skactive", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("pyproject.toml", "README.md", "docs", "examples"):
        (folder / part).symlink_to(ROOT / part)
    return folder


def outcome(mutant: Mutant, folder: Path, by_line: dict[tuple[str, int], set[str]]) -> str:
    tests = selected(mutant, by_line)
    if not tests:
        return "not executed"
    file = folder / mutant.path
    before = file.read_text()
    file.write_text(before[: mutant.start] + mutant.text + before[mutant.stop :])
    try:
        status = in_a_fork(folder, pytest_of, *tests)
    finally:
        file.write_text(before)
        shutil.rmtree(folder / ".hypothesis", ignore_errors=True)
    return {0: "survived", -1: "killed (too long)"}.get(status, "killed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS))
    parser.add_argument("--n", type=int, default=200, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", type=Path, help="a file of an earlier run: try only the mutants that survived")
    parser.add_argument("--out", type=Path, help="a JSON file of mutants and what became of them")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    load_libraries()
    mutants = survivors_in(options.again) if options.again else chosen(options.rooms, options.n, options.seed)
    rooms = [room for room in options.rooms if any(mutant.room == room for mutant in mutants)]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        folders = [copy_of_checkout(Path(scratch).resolve(), f"checkout {i}") for i in range(options.jobs)]

        def measured(room: str) -> dict[tuple[str, int], set[str]]:
            folder, data = folders.pop(), f"{scratch}/{room}.coverage"
            status = in_a_fork(folder, measure, room, data)
            if status:
                raise SystemExit(f"The tests of {room} fail without any change (status {status}).")
            by_line = tests_by_line(room, folder, data)
            folders.append(folder)
            return by_line

        by_room = dict(zip(rooms, pool.map(measured, rooms), strict=True))

        def tried(mutant: Mutant) -> str:
            folder = folders.pop()
            found = outcome(mutant, folder, by_room[mutant.room])
            folders.append(folder)
            print(f"{found:>18}  {mutant.path}:{mutant.first_line}  {mutant.was!r} -> {mutant.text!r}", flush=True)
            return found

        found = list(pool.map(tried, mutants))
    if options.out:
        rows = [asdict(mutant) | {"outcome": of} for mutant, of in zip(mutants, found, strict=True)]
        options.out.write_text(json.dumps(rows, indent=1))
    for room in rooms:
        counts = collections.Counter(of for mutant, of in zip(mutants, found, strict=True) if mutant.room == room)
        print(f"{room}: {dict(counts)}")
    print(f"all: {dict(collections.Counter(found))}")


if __name__ == "__main__":
    main()
