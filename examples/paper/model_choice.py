"""The model of a campaign: a forest, a linear model, the mean of the two, or a choice among these by their folds.

The same random labels for all: 20, 60 and 120 of them, two splits a table, tables cut at 1,000 rows. The mean is that
of probabilities (of predicted numbers), as a `VotingClassifier` or `VotingRegressor` makes it. A choice takes the mean
below 60 labels and then the best out of fold, of the two or of all three, by accuracy or by log loss.

What a campaign does by default was to be decided on `CLASSES` and `NUMBERS_FIRST`, by a rule written before any result:
the mean, if its log loss over the three sizes is below the forest's by an interval without 0, and its accuracy not
below the forest's by one (of numbers: if its R2 is above the forest's by one); else the forest. A choice takes its
place if accuracy or log loss at 60 and 120 labels is better than the mean's by an interval without 0, and the other not
worse by one; of several, the one of the best log loss. The 29 and 10 tables of `many_tables`, in none of these lists,
were then asked once; the claims are about those. Log losses have probabilities floored at 0.001, R2 is floored at -1.
"""

CLASSES = {
    "Hawks": ("Stat2Data", "Species", ("Month", "Day", "Year", "CaptureTime", "ReleaseTime", "BandNumber")),
    "Fishing": ("Ecdat", "mode", ("price", "catch")),
    "storms": ("dplyr", "status", ("name", "category", "day", "hour")),
    "surveys": ("ratdat", "species_id", ("record_id", "day")),
    "Titanicp": ("vcdExtra", "survived", ()),
    "CreditCard": ("AER", "card", ("share", "expenditure")),
    "loans_full_schema": ("openintro", "grade", ("sub_grade", "interest_rate", "emp_title", "state")),
    "hfi": ("openintro", "region", ("ISO_code", "countries")),
    "olive": ("dslabs", "area", ("region",)),
    "SaratogaHouses": ("mosaicData", "fuel", ()),
    "nwtco": ("survival", "rel", ("seqno", "edrel", "in.subcohort")),
    "biopsy": ("MASS", "class", ("ID",)),
    "fastfood": ("openintro", "restaurant", ("item", "salad")),
    "loanapp": ("wooldridge", "approve", ("action", "reject", "mortno", "mortperf")),
    "mlb_players_18": ("openintro", "position", ("name", "team")),
    "pbcseq": ("survival", "stage", ("id", "futime", "status")),
    "vote92": ("pscl", "vote", ()),
    "planes": ("nycflights13", "manufacturer", ("tailnum", "model")),
    "stackoverflow": ("modeldata", "Remote", ()),
    "k401ksubs": ("wooldridge", "p401k", ("e401k", "pira")),
    "PSID1976": ("AER", "participation", ("hours", "wage", "repwage")),
    "acs12": ("openintro", "employment", ("hrs_work", "time_to_work")),
    "Cracker": ("Ecdat", "choice", ("id",)),
    "flchain": ("survival", "death", ("futime", "chapter")),
    "yrbss": ("openintro", "gender", ()),
}
NUMBERS_FIRST = {
    "concrete": ("modeldata", "compressive_strength", ()),
    "ames": ("modeldata", "Sale_Price", ()),
    "Computers": ("Ecdat", "price", ()),
    "car_prices": ("modeldata", "Price", ()),
    "Boston": ("MASS", "medv", ()),
    "deliveries": ("modeldata", "time_to_delivery", ()),
    "Wage": ("ISLR", "logwage", ("wage",)),
}
