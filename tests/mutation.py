"""Whether the tests see faults: seeded mutants of the rooms with arithmetic, each against the tests of its room.

    python tests/mutation.py [--rooms samplers query] [--n 200] [--seed 0] [--jobs 2] [--out FILE]

A mutant is the package with one comparison, sign, operator, condition or number changed. It is killed if a test of its
room fails (or runs for too long), and survives otherwise; some mutants change nothing and cannot be killed. The same
seed gives the same mutants of the same code.
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
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

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
    line: int
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
                yield Mutant(room, where, start, start + len(was), text, node.lineno, was)


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


def copy_of_checkout(parent: Path, name: str) -> Path:
    folder = parent / name
    for part in ("skactive", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("pyproject.toml", "README.md", "docs", "examples"):
        (folder / part).symlink_to(ROOT / part)
    return folder


def status_of(room: str, folder: Path) -> int:
    """What pytest says of the tests of a room in a checkout; 0 if all pass."""
    plain = ["-n=0", "-q", "-x", "-p", "no:cacheprovider", "--tb=no"]
    command = [sys.executable, "-m", "pytest", *plain, *(f"tests/{path}" for path in ROOMS[room][1])]
    options = {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(folder)}, "capture_output": True}
    return subprocess.run(command, timeout=TOO_LONG, check=False, **options).returncode


def outcome(mutant: Mutant, folder: Path) -> str:
    file = folder / mutant.path
    before = file.read_text()
    file.write_text(before[: mutant.start] + mutant.text + before[mutant.stop :])
    try:
        return "killed" if status_of(mutant.room, folder) else "survived"
    except subprocess.TimeoutExpired:
        return "killed (too long)"
    finally:
        file.write_text(before)
        shutil.rmtree(folder / ".hypothesis", ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=list(ROOMS))
    parser.add_argument("--n", type=int, default=200, help="mutants in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a JSON file of mutants and what became of them")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    mutants = chosen(options.rooms, options.n, options.seed)
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        folders = [copy_of_checkout(Path(scratch).resolve(), f"checkout {i}") for i in range(options.jobs)]
        for room in options.rooms:
            if status := status_of(room, folders[0]):
                raise SystemExit(f"The tests of {room} fail without any change (status {status}).")

        def tried(mutant: Mutant) -> str:
            folder = folders.pop()
            found = outcome(mutant, folder)
            folders.append(folder)
            print(f"{found:>18}  {mutant.path}:{mutant.line}  {mutant.was!r} -> {mutant.text!r}", flush=True)
            return found

        found = list(pool.map(tried, mutants))
    if options.out:
        rows = [asdict(mutant) | {"outcome": of} for mutant, of in zip(mutants, found, strict=True)]
        options.out.write_text(json.dumps(rows, indent=1))
    for room in options.rooms:
        counts = collections.Counter(of for mutant, of in zip(mutants, found, strict=True) if mutant.room == room)
        print(f"{room}: {dict(counts)}")


if __name__ == "__main__":
    main()
