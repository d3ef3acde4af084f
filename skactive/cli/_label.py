"""``skactive label``: a page in the browser, to label rows while the model learns; and its demonstration."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import webbrowser
from pathlib import Path

from ..campaign import Campaign, CampaignError
from ..datasets import load_table
from ._commands import _answer, counted, start
from ._exchange import opened

OF_HOST = (
    "Anyone on this network who has an address sees rows and can answer in that name. Nothing is encrypted: use --host "
    "only on a network that you trust."
)


def label(options: argparse.Namespace) -> str:
    """Serve the page until Ctrl-C."""
    if options.host is not None and not options.annotator:
        raise CampaignError("`host` opens the page to others: name the annotators by --annotator NAME NAME.")
    given = {"batch": options.batch, "overlap": options.overlap, "host": options.host or "", "port": options.port}
    served = opened(options).serve(options.annotator or "", **given)
    told = [f"{options.campaign} is open for labelling. Ctrl-C ends it.", str(served), *[OF_HOST] * bool(options.host)]
    print(*told, sep="\n", file=sys.stderr, flush=True)
    if not (options.no_browser or options.host):
        webbrowser.open(next(iter(served.addresses.values())))
    served.wait()
    status, path = counted(Campaign.open(options.campaign)), shlex.quote(options.campaign)
    return _answer(options, f"{status}\nNext: skactive label {path}, or skactive status {path}", status)


def demo_label(options: argparse.Namespace) -> str:
    """Label penguins in a folder of their own, and say how many of the labels are right."""
    from . import _parse

    table, species = load_table("penguins")
    folder = Path(tempfile.mkdtemp(prefix="skactive-"))
    db, pool, labels = str(folder / "penguins.db"), str(folder / "penguins.csv"), ",".join(sorted({*species}))
    table.assign(species=None).to_csv(pool, index_label="id")
    columns = ["--pool", pool, "--id", "id", "--target", "species", "--labels", labels, "--seed", str(options.seed)]
    start(_parse("start", [db, *columns]))
    print("Bills of Adelie are short, to 43 mm; of the others, Gentoo have less deep ones, to 17 mm.", file=sys.stderr)
    label(_parse("label", [db]))
    given = Campaign.open(db).to_frame()["species"].dropna()
    n_right = sum(species[int(id)] == one for id, one in given.items())
    text = f"{n_right} of your {len(given)} labels agree with the truth. To go on: skactive label {shlex.quote(db)}"
    return _answer(options, text, n_labels=len(given), n_right=n_right, campaign=db)
