"""Campaigns: labels for a table with ids and gaps, bought in batches, in one file that any process can go on with."""

from ._accuracy import Accuracy
from ._campaign import Campaign
from ._labels import Told
from ._status import Status
from ._store import CampaignError, CampaignFileError

__all__ = ["Accuracy", "Campaign", "CampaignError", "CampaignFileError", "Status", "Told"]
