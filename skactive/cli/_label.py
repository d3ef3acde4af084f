"""``skactive label``: a page in the browser, to label rows while the model learns."""

from __future__ import annotations

import argparse
import shlex
import sys
import webbrowser

from ..campaign import CampaignError
from ._commands import _answer, counted
from ._exchange import opened

OF_HOST = (
    "Anyone on this network who has an address sees rows and can answer in that name. Nothing is encrypted: use --host "
    "only on a network that you trust."
)


def label(options: argparse.Namespace) -> str:
    """Serve the page until Ctrl-C."""
    if options.host is not None and not options.annotator:
        raise CampaignError("`host` opens the page to others: name the annotators by --annotator NAME NAME.")
    campaign = opened(options)
    given = {"batch": options.batch, "overlap": options.overlap, "host": options.host or "", "port": options.port}
    served = campaign.serve(options.annotator or "", **given)
    told = [f"{options.campaign} is open for labelling. Ctrl-C ends it.", str(served), *[OF_HOST] * bool(options.host)]
    print(*told, sep="\n", file=sys.stderr, flush=True)
    if not (options.no_browser or options.host):
        webbrowser.open(next(iter(served.addresses.values())))
    served.wait()
    status, path = counted(campaign), shlex.quote(options.campaign)
    return _answer(options, f"{status}\nNext: skactive label {path}, or skactive status {path}", status)
