"""Campaigns: labels for a table with ids and gaps, bought in batches, in one file that any process can go on with."""

from ._accuracy import Accuracy
from ._campaign import Campaign, Told
from ._errors import CampaignError, CampaignFileError
from ._status import Status

__all__ = ["Accuracy", "Campaign", "CampaignError", "CampaignFileError", "Status", "Told"]
