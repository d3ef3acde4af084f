"""All studies, one after the other: ``python examples/paper --quick --data FOLDER``.

``--page`` makes the page of the documentation from the results in OUT instead.
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
        out = study.parse("", "", arguments).out
        (out / "claims.inc").write_text(page.as_rst(out), encoding="utf-8")
        for name, text in page.guide_parts(out).items():
            (out / f"{name}.inc").write_text(text, encoding="utf-8")
        return 0
    study.parse("", "Every study of the paper's claims", arguments)  # says what is wrong with them, once
    failed = []
    for name in STUDIES:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py"), *arguments], check=False).returncode:
            failed.append(name)
    print(f"{len(STUDIES) - len(failed)} of {len(STUDIES)} studies came to their end.", *failed)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
