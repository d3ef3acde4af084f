"""Small tables that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .._checks import import_optional, one_of
from .._types import TableName

TABLES = {path.name.split(".")[0]: path for path in Path(__file__).parent.glob("data/*.csv.gz")}


def load_table(name: TableName) -> tuple[Any, NDArray[Any]]:
    """Load a small table with columns of numbers and of text, one of those that come with the package.

    ============  ====  ========  =====================================================================  =======
    ``name``      rows  features  what                                                                   licence
    ============  ====  ========  =====================================================================  =======
    ``hpc``       4331  7         how long jobs ran on a cluster: VF, F, M or L (6 % of them)            MIT
    ``penguins``  344   6         species of penguins; values are missing in 11 rows                     CC0 1.0
    ============  ====  ========  =====================================================================  =======

    Parameters
    ----------
    name : str
        See the table.

    Returns
    -------
    X : pandas.DataFrame
        Features.
    y : ndarray of shape (n,) and dtype object
        Classes.

    Raises
    ------
    ValueError
        If there is no such table.
    ImportError
        If pandas is missing.

    See Also
    --------
    datasets.load_images : Images.
    datasets.load_clinc150 : Texts.

    References
    ----------
    Kuhn and Johnson (2013), Applied Predictive Modeling (hpc, by way of the R package modeldata).
    Horst, Hill and Gorman (2020), palmerpenguins.

    Examples
    --------
    >>> from skactive.datasets import load_table
    >>> X, y = load_table("penguins")
    >>> X.shape, sorted(set(y))
    ((344, 6), ['Adelie', 'Chinstrap', 'Gentoo'])
    """
    one_of(TABLES).check("name", name)
    pandas = import_optional("pandas", "load_table", "pandas")
    table = pandas.read_csv(TABLES[name])
    return table.drop(columns="target"), table["target"].to_numpy(dtype=object)
