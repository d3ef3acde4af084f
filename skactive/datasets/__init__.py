"""Data for experiments: pools with a flaw on purpose, known effects, small tables, and public sets from files at hand.

Images are unsigned bytes (n, channels, height, width), as torch wants them: ``X.astype(np.float32) / 255`` lies between
0 and 1. Nothing is downloaded; where a file is missing, the error says what to fetch and where it must lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from .._checks import check_counts, check_positive_integers, import_optional
from .._random import check_rng
from . import _characters, _clinc150, _ihdp, _image_files, _image_folder
from ._checks import check_characters, check_folder, check_key, check_probability

__all__ = [
    "MIO_TCD",
    "list_image_folder",
    "load_clinc150",
    "load_images",
    "load_table",
    "make_causal",
    "make_characters",
    "make_ihdp",
    "make_repeated",
    "read_images",
]

TABLES = Path(__file__).parent / "data"
MIO_TCD: Mapping[str, int] = {
    "articulated_truck": 10_346,
    "background": 160_000,
    "bicycle": 2_284,
    "bus": 10_316,
    "car": 260_518,
    "motorcycle": 1_982,
    "non-motorized_vehicle": 1_751,
    "pedestrian": 6_262,
    "pickup_truck": 50_906,
    "single_unit_truck": 5_120,
    "work_van": 9_679,
}
"""Classes of the training part of MIO-TCD (Luo et al., 2018) and how many images each has."""


def make_repeated(
    X: ArrayLike, y: ArrayLike, repeats: int, noise_std: float, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Repeat a data set, every copy with its own Gaussian noise: a pool full of near-duplicates.

    Split off test data first, and repeat the rest: copies on both sides of a split would leak.

    Parameters
    ----------
    X : array-like of shape (n_points, ...)
        Features; whole numbers become float64.
    y : array-like of shape (n_points,)
        Labels.
    repeats : int
        Copies of each row.
    noise_std : float
        Standard deviation of the isotropic noise, in the units of X.
    rng : numpy.random.Generator

    Returns
    -------
    X : ndarray of shape (repeats * n_points, ...)
        Copy after copy: row i and row i + n_points come from the same row.
    y : ndarray of shape (repeats * n_points,)

    Raises
    ------
    ValueError, TypeError
        If ``repeats`` is not a positive integer, or ``rng`` not a numpy Generator.

    References
    ----------
    Kirsch, van Amersfoort and Gal (2019), BatchBALD, sec. 4.1 (Repeated-MNIST).

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.datasets import make_repeated
    >>> X, y = make_repeated([[0.0], [1.0]], ["a", "b"], 3, 0.1, np.random.default_rng(0))
    >>> X.shape, y.tolist()
    ((6, 1), ['a', 'b', 'a', 'b', 'a', 'b'])
    """
    check_positive_integers(repeats=repeats)
    check_rng(rng)
    X, y = np.asarray(X), np.asarray(y)
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    repeated = np.concatenate([X] * repeats)
    repeated += noise_std * rng.standard_normal(repeated.shape, dtype=np.result_type(X.dtype, np.float32))
    return repeated, np.concatenate([y] * repeats)


def make_characters(
    n: int,
    setting: str,
    rng: np.random.Generator,
    *,
    p: float | None = None,
    size: int = 32,
    characters: str | Sequence[str] | None = None,
    fonts: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.str_], NDArray[np.str_]]:
    """Draw images of characters that have something wrong with them, for questions of fairness and noise.

    Each image shows a character in one of many fonts, turned, scaled and moved at random, before a gradient.

    ==============  ==========================================================  =====================  ============
    ``setting``     what is wrong                                               groups                 ``p``
    ==============  ==========================================================  =====================  ============
    ``"minority"``  one colour is rare: P(blue) = p                             red, blue              0.1
    ``"spurious"``  colours go with classes: P(blue) = p for the first, third,  red, blue              0.9
                    ... of the characters and 1 − p for the others
    ``"missing"``   labels cannot be known: P(hidden) = p; a hidden character   visible, hidden        0.1
                    lies behind a shape that contains all of it
    ==============  ==========================================================  =====================  ============

    A held-out set in which colours are fair has ``p=0.5``. In the first two settings each image has a small shape
    anywhere, at times over the character.

    Parameters
    ----------
    n : int
        Number of images.
    setting : {"minority", "missing", "spurious"}
    rng : numpy.random.Generator
    p : float, optional
        Probability of the second group, see the table.
    size : int
        Height and width in pixels.
    characters : str or sequence of str, optional
        The classes, equally likely: "ad" by default, and the 26 small letters for "missing".
    fonts : path or sequence of paths, optional
        A folder that is searched for ``.ttf`` and ``.otf`` files, or such files. Fonts that lack one of the characters
        are left out. By default the text fonts that come with matplotlib, about twenty: DejaVu, STIX, Computer Modern.

    Returns
    -------
    X : ndarray of shape (n, 3, size, size) and dtype uint8
        Red, green and blue.
    y : ndarray of shape (n,)
        The characters.
    groups : ndarray of shape (n,)
        The group of each image; fairness compares the accuracies of groups.

    Raises
    ------
    ValueError, TypeError
        If a parameter is not as described, or no font has all characters.
    ImportError
        If Pillow is missing, or matplotlib where it is to bring the fonts.

    Notes
    -----
    Labels and groups do not depend on fonts or size; pixels also depend on the versions of the fonts and of Pillow. The
    sizes, angles and colours follow Synbols in kind and not in detail, and there are fewer fonts: accuracies found with
    one do not carry over to the other.

    References
    ----------
    Lacoste et al. (2020), Synbols: Probing Learning Algorithms with Synthetic Datasets.
    Branchaud-Charron, Atighehchian, Rodríguez, Abuhamad and Lacoste (2021), Can Active Learning Preemptively Mitigate
    Fairness Issues?

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.datasets import make_characters
    >>> X, y, groups = make_characters(6, "minority", np.random.default_rng(0), p=0.5, size=16)
    >>> X.shape, y.tolist(), groups.tolist()
    ((6, 3, 16, 16), ['d', 'd', 'd', 'a', 'a', 'a'], ['blue', 'red', 'red', 'red', 'red', 'red'])
    """
    check_counts(n=n, size=size)
    check_rng(rng)
    check_key("setting", setting, _characters.SETTINGS)
    flaw = _characters.SETTINGS[setting]
    p = check_probability("p", flaw.p if p is None else p)
    letters = check_characters(flaw.characters if characters is None else characters)
    stencils = _characters.character_stencils(_characters.find_fonts(fonts), letters, size)
    pictures = _characters.draw(flaw, n, len(letters), len(stencils), p, rng)
    images = _characters.render(pictures, stencils, size)
    return images, np.array(letters)[pictures.character], np.array(flaw.groups)[pictures.group]


def make_causal(
    n: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    r"""Make outcomes of a treatment whose effect depends on one covariate, and which few get on one side of it.

    :math:`x \sim N(0, 1)`, :math:`P(t = 1 | x) = 1 / (1 + e^{-(0.75 x + 0.5)})`, and with s = 2t - 1 the outcome is
    :math:`s x + s - 2 \sin(2 s x) + 2 + x` plus noise :math:`N(0, 1)`. The effect is
    :math:`2 x + 2 - 4 \sin 2x`, 2 on average.

    Parameters
    ----------
    n : int
        Number of rows.
    rng : numpy.random.Generator

    Returns
    -------
    X : ndarray of shape (n, 2)
        The covariate, and the treatment, 0 or 1, as the last column.
    y : ndarray of shape (n,)
        Outcomes under that treatment.
    effects : ndarray of shape (n,)
        What the treatment changes of the expected outcome of each row.

    Raises
    ------
    ValueError, TypeError
        If ``n`` is not a positive integer, or ``rng`` not a numpy Generator.

    References
    ----------
    Jesson et al. (2021), Causal-BALD; with the constants of their code.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.datasets import make_causal
    >>> X, y, effects = make_causal(1000, np.random.default_rng(0))
    >>> treated = X[:, 1] == 1
    >>> float(treated[X[:, 0] > 1].mean().round(2)), float(treated[X[:, 0] < -1].mean().round(2))
    (0.78, 0.36)
    """
    check_counts(n=n)
    check_rng(rng)
    x = rng.standard_normal(n)
    treatment = (rng.random(n) < expit(0.75 * x + 0.5)).astype(np.float64)
    untreated, treated = (s * x + s - 2 * np.sin(2 * s * x) + 2 + x for s in (-1, 1))
    y = np.where(treatment == 1, treated, untreated) + rng.standard_normal(n)
    return np.stack([x, treatment], axis=1), y, treated - untreated


def make_ihdp(
    path: str | PathLike[str], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    r"""Make outcomes of the Infant Health and Development Program: its covariates and treatments, simulated effects.

    Treated children of mothers who are not white are left out, so that the treatment depends on the covariates. With
    coefficients :math:`\beta_j` of 0, 0.1, 0.2, 0.3 and 0.4 (probabilities 0.6, 0.1, 0.1, 0.1, 0.1), outcomes are
    :math:`\exp((x + 0.5)^T \beta)` without and :math:`(x + 0.5)^T \beta - \omega` with the treatment, plus noise
    :math:`N(0, 1)`; :math:`\omega` makes the mean effect on the treated 4.

    Parameters
    ----------
    path : path
        A table (``.csv`` or ``.csv.gz``) with the data frame ``ihdp`` of the R package npci.
    rng : numpy.random.Generator
        Coefficients and noise are new in each call.

    Returns
    -------
    X : ndarray of shape (747, 26)
        Six continuous covariates, standardised, nineteen with two values, and the treatment, 0 or 1, as the last
        column: 139 are treated.
    y : ndarray of shape (747,)
        Outcomes under that treatment.
    effects : ndarray of shape (747,)
        What the treatment changes of the expected outcome of each row.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError, TypeError
        If it is no such table, or ``rng`` not a numpy Generator.

    References
    ----------
    Hill (2011), Bayesian Nonparametric Modeling for Causal Inference, response surface B. Jesson et al. (2021),
    Causal-BALD; with the constants of their code.

    Examples
    --------
    >>> import numpy as np
    >>> from skactive.datasets import make_ihdp
    >>> X, y, effects = make_ihdp("ihdp.csv", np.random.default_rng(0))  # doctest: +SKIP
    >>> X.shape, float(effects[X[:, -1] == 1].mean().round(6))  # doctest: +SKIP
    ((747, 26), 4.0)
    """
    check_rng(rng)
    X, treatment = _ihdp.read_covariates(Path(path).expanduser())
    untreated, treated = _ihdp.expected_outcomes(X, treatment, rng)
    y = np.where(treatment == 1, treated, untreated) + rng.standard_normal(len(X))
    return np.column_stack([X, treatment]), y, treated - untreated


def load_images(
    name: str, path: str | PathLike[str], split: str = "train"
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Load a public set of small images from its files.

    ===================  ==========================================  ===============  =======
    ``name``             images (train, test)                        shape            classes
    ===================  ==========================================  ===============  =======
    ``cifar10``          50,000, 10,000                              (3, 32, 32)      10
    ``emnist_balanced``  112,800, 18,800                             (1, 28, 28)      47
    ``emnist_bymerge``   697,932, 116,323                            (1, 28, 28)      47
    ``fashion_mnist``    60,000, 10,000                              (1, 28, 28)      10
    ``mnist``            60,000, 10,000                              (1, 28, 28)      10
    ``svhn``             73,257, 26,032 (and ``extra``, 531,131)     (3, 32, 32)      10
    ===================  ==========================================  ===============  =======

    Parameters
    ----------
    name : str
        See the table.
    path : path
        The folder that the files are in, or the one given to ``torchvision.datasets`` as ``root``. IDX files may be
        compressed.
    split : {"train", "test", "extra"}

    Returns
    -------
    X : ndarray of shape (n, channels, height, width) and dtype uint8
        EMNIST, whose files hold images on their side, is turned upright.
    y : ndarray of shape (n,) and dtype int64
        From 0 to the number of classes − 1; in SVHN 0 is the digit 0.

    Raises
    ------
    FileNotFoundError
        If a file is missing; the error says which, and how to get it.
    ValueError
        If a file is damaged or holds anything but this set: magic numbers, lengths, shapes, labels and the number of
        images are checked.

    Notes
    -----
    CIFAR-10 comes as pickles, which can run code when they are loaded. These are read by an unpickler that makes arrays
    and built-in values and refuses everything else.

    References
    ----------
    LeCun, Bottou, Bengio and Haffner (1998), MNIST. Xiao, Rasul and Vollgraf (2017), Fashion-MNIST. Cohen, Afshar,
    Tapson and van Schaik (2017), EMNIST. Krizhevsky (2009), CIFAR-10. Netzer et al. (2011), SVHN.

    Examples
    --------
    >>> from skactive.datasets import load_images
    >>> X, y = load_images("mnist", "~/data", "test")  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (10000, 1, 28, 28)
    """
    check_key("name", name, _image_files.IMAGE_SETS)
    image_set = _image_files.IMAGE_SETS[name]
    check_key("split", split, image_set.counts)
    return _image_files.read(image_set, check_folder(path), split)


def list_image_folder(
    path: str | PathLike[str], counts: Mapping[str, int] | None = None
) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    """List the images in a folder that has a folder for each class, such as MIO-TCD.

    Parameters
    ----------
    path : path
        Folder of folders with ``.jpg``, ``.jpeg``, ``.png`` or ``.bmp`` files.
    counts : dict from str to int, optional
        Names of the classes and numbers of their images, to be checked; ``MIO_TCD`` has those of the training part of
        MIO-TCD, in the folder ``MIO-TCD-Classification/train`` of its archive.

    Returns
    -------
    files : ndarray of shape (n,)
        Paths, for `read_images`.
    y : ndarray of shape (n,)
        Classes: the names of the folders.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If it holds no images, or not those of ``counts``.

    References
    ----------
    Luo et al. (2018), MIO-TCD: A New Benchmark Dataset for Vehicle Classification and Localization.

    Examples
    --------
    All of MIO-TCD at 64 x 64 pixels takes 6.4 GB. Choose before reading:

    >>> import numpy as np
    >>> from skactive.datasets import MIO_TCD, list_image_folder, read_images
    >>> files, y = list_image_folder("MIO-TCD-Classification/train", MIO_TCD)  # doctest: +SKIP
    >>> rows = np.random.default_rng(0).choice(len(files), 20_000, replace=False)  # doctest: +SKIP
    >>> X, y = read_images(files[rows], 64), y[rows]  # doctest: +SKIP
    """
    return _image_folder.list_folder(check_folder(path), counts)


def read_images(files: Iterable[str | PathLike[str]], size: int) -> NDArray[np.uint8]:
    """Read image files, and bring them to one size.

    Parameters
    ----------
    files : iterable of paths
        Files of any format that Pillow reads.
    size : int
        Height and width in pixels; an image that is not square is stretched.

    Returns
    -------
    ndarray of shape (n, 3, size, size) and dtype uint8
        Red, green and blue.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file is missing or is no image, with its path.
    ImportError
        If Pillow is missing.

    Examples
    --------
    >>> from skactive.datasets import read_images
    >>> X = read_images(["left.jpg", "right.jpg"], 64)  # doctest: +SKIP
    """
    check_counts(size=size)
    return _image_folder.read_images(files, size)


def load_clinc150(path: str | PathLike[str], split: str = "train") -> tuple[NDArray[np.object_], NDArray[np.str_]]:
    """Load CLINC-150: what people ask an assistant, and which of 150 things they want.

    Parameters
    ----------
    path : path
        One of the authors' JSON files, such as ``data_full.json``, or a table (``.csv``, ``.csv.gz``) with columns
        ``split``, ``intent`` and ``text``.
    split : {"train", "val", "test", "oos_train", "oos_val", "oos_test"}
        Those with ``oos`` hold questions out of scope, all of the class "oos".

    Returns
    -------
    X : ndarray of shape (n,) and dtype object
        Sentences.
    y : ndarray of shape (n,)
        Intents.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not of one of these forms, or a split does not have 150 intents.

    References
    ----------
    Larson et al. (2019), An Evaluation Dataset for Intent Classification and Out-of-Scope Prediction. The data are
    licensed CC BY 3.0.

    Examples
    --------
    >>> from skactive.datasets import load_clinc150
    >>> X, y = load_clinc150("data_full.json", "test")  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (4500,)
    """
    pairs = _clinc150.read_pairs(Path(path).expanduser(), split)
    texts = np.empty(len(pairs), dtype=object)
    texts[:] = [text for text, _ in pairs]
    return texts, np.array([intent for _, intent in pairs])


def load_table(name: str) -> tuple[Any, NDArray[Any]]:
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
    tables = {path.name.split(".")[0]: path for path in TABLES.glob("*.csv.gz")}
    check_key("name", name, tables)
    pandas = import_optional("pandas", "load_table", "pandas")
    table = pandas.read_csv(tables[name])
    return table.drop(columns="target"), table["target"].to_numpy(dtype=object)
