"""Move the fragments of docs/changelog.d into CHANGELOG.md, or show the section of a version.

python docs/changelog.py 0.2.0          # a new section on top; the fragments are deleted
python docs/changelog.py --show 0.2.0   # prints the section, for the notes of a release
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = ("added", "changed", "fixed")


def fragments(folder: Path) -> dict[str, list[Path]]:
    """Give the fragments of each kind; a file of another name is an error, so that none is lost."""
    found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for path in sorted(folder.iterdir()):
        if path.name == "README":
            continue
        name = re.fullmatch(rf"[\w-]+\.({'|'.join(KINDS)})\.md", path.name)
        if name is None:
            raise SystemExit(f"{path.name} is no name of a fragment: <topic>.<{'|'.join(KINDS)}>.md")
        found[name[1]].append(path)
    return found


def section(version: str, found: dict[str, list[Path]]) -> str:
    """Write the fragments as a section, a bullet each."""
    parts = [f"## {version}"]
    for kind, paths in found.items():
        if paths:
            texts = [path.read_text(encoding="utf-8").strip().replace("\n", "\n  ") for path in paths]
            parts += [f"### {kind.capitalize()}", "\n".join(f"- {text}" for text in texts)]
    return "\n\n".join(parts) + "\n"


def show(version: str, changelog: str) -> str:
    """Find the section of a version, without its heading."""
    found = re.search(rf"^## {re.escape(version)}(?: .*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section of {version}")
    return found[1].strip() + "\n"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="as in skactive/__init__.py")
    parser.add_argument("--show", action="store_true", help="print the section of the version and change nothing")
    asked = parser.parse_args(arguments)
    path = root / "CHANGELOG.md"
    changelog = path.read_text(encoding="utf-8")
    if asked.show:
        sys.stdout.write(show(asked.version, changelog))
        return
    if re.search(rf"^## {re.escape(asked.version)}\b", changelog, re.MULTILINE):
        raise SystemExit(f"CHANGELOG.md has a section of {asked.version} already")
    found = fragments(root / "docs" / "changelog.d")
    if not any(found.values()):
        raise SystemExit("docs/changelog.d has no fragments")
    head, newest, rest = changelog.partition("\n## ")
    path.write_text(f"{head}\n{section(asked.version, found)}{newest}{rest}", encoding="utf-8")
    for paths in found.values():
        for fragment in paths:
            fragment.unlink()


if __name__ == "__main__":
    main()
