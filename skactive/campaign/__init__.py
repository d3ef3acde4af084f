"""Campaigns: labels for a table with ids and gaps, bought in batches, in one file that any process can go on with."""

from ._accuracy import Accuracy
from ._campaign import Campaign
from ._errors import CampaignError, CampaignFileError
from ._status import Status
from ._telling import Told

__all__ = ["Accuracy", "Campaign", "CampaignError", "CampaignFileError", "Status", "Told"]
