"""``python -m skactive``: the command line, as ``skactive`` is where the package is installed."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
