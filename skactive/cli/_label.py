"""``skactive label``: a page in the browser, to label rows while the model learns."""

from __future__ import annotations

import argparse
import shlex
import sys
import webbrowser
from pathlib import Path

from ..campaign import CampaignError
from ._commands import _answer, _counted, opened


def label(options: argparse.Namespace) -> str:
    """Serve the page until Ctrl-C."""
    from ..campaign._live import Served

    names = options.annotator or []
    if options.host is not None and not names:
        raise CampaignError("`host` opens the page to others: name who will label, by --annotator NAME NAME.")
    campaign = opened(options)
    table = campaign._settings.get("pool") or [""]
    served = Served(
        campaign,
        names,
        batch=options.batch,
        overlap=options.overlap,
        port=options.port,
        folder=(campaign.path.parent / table[0]).parent,
        **({} if options.host is None else {"host": options.host}),
    )
    print(_told(options, served.addresses), file=sys.stderr, flush=True)
    if not options.no_browser and options.host is None:
        webbrowser.open(next(iter(served.addresses.values())))
    served.run()
    status, path = _counted(campaign), shlex.quote(options.campaign)
    return _answer(options, f"{status}\nNext: skactive label {path}, or skactive status {path}", status)


def _told(options: argparse.Namespace, addresses: dict[str, str]) -> str:
    """Where to go, and who else can."""
    lines = [f"{name}: {address}" if name else address for name, address in addresses.items()]
    if options.host is not None:
        lines.append(
            "Whoever in this network has one of these addresses sees rows and answers in that name, and what is sent "
            "is not encrypted: use --host in a network that you trust."
        )
    return "\n".join([f"{Path(options.campaign).name} is open for labelling. Ctrl-C ends it.", *lines])
