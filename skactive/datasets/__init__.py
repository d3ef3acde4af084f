"""Data for experiments: pools with a known flaw, known effects, small tables, and public sets from files on disk.

Images are unsigned bytes (n, channels, height, width), as torch wants them: ``X.astype(np.float32) / 255`` lies between
0 and 1. Nothing is downloaded; where a file is missing, the error says what to fetch and where to put it.
"""

from ._characters import make_characters
from ._clinc150 import load_clinc150
from ._image_folder import MIO_TCD, list_image_folder, read_images
from ._image_sets import load_images
from ._repeated import make_repeated
from ._tables import load_table
from ._treatments import make_causal, make_ihdp

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
