"""All studies, one after the other: ``python examples/paper --quick --data FOLDER``.

``--page`` makes the pages of the documentation from the results in OUT instead, beside them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import page
import study

HERE = Path(__file__).parent
STUDIES = sorted(path.stem for path in HERE.glob("*.py") if "\nSIZES" in path.read_text(encoding="utf-8"))


def main(arguments: list[str]) -> int:
    """Run every study with these options; how many failed."""
    if "--page" in arguments:
        arguments.remove("--page")
        write_pages(study.parse("", "", arguments).out)
        return 0
    study.parse("", "Every study of the paper's claims", arguments)  # says what is wrong with them, once
    failed = []
    for name in STUDIES:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py"), *arguments], check=False).returncode:
            failed.append(name)
    print(f"{len(STUDIES) - len(failed)} of {len(STUDIES)} studies came to their end.", *failed)
    return len(failed)


def write_pages(out: Path) -> None:
    """The table of claims, a page for each study, and what pages of the guide include."""
    records = page.read(out)
    texts = {"claims.inc": page.as_rst(records)}
    texts |= {f"{name}.rst": page.study_page(record) for name, record in records.items()}
    texts |= {f"{name}.inc": text for name, text in page.guide_parts(records).items()}
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
