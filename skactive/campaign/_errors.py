"""What a campaign refuses."""

from __future__ import annotations

from collections.abc import Sequence


class CampaignError(ValueError):
    """A file, a table or labels that a campaign cannot take. Nothing was written.

    Attributes
    ----------
    entries : tuple of int
        Which entries of what was given are at fault, counted from 0; empty if that cannot be said.

    See Also
    --------
    campaign.CampaignFileError : A file that is locked, or a disk that is full.
    """

    def __init__(self, text: str, entries: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.entries = tuple(entries)


class CampaignFileError(CampaignError):
    """The file of a campaign cannot be read or written now: it is locked, or the disk is full.

    See Also
    --------
    campaign.CampaignError : What is wrong with what was given.
    """


def shown(values: Sequence[object], most: int = 5) -> str:
    """Some of many values, for a message: all of them if they are few."""
    some = ", ".join(repr(value) for value in values[:most])
    return some if len(values) <= most else f"{some} and {len(values) - most} more"
