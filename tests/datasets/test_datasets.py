"""Made-up images have the flaws they are said to have; files are read as their formats say, or refused."""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
import struct
import warnings
from pathlib import Path
from typing import ClassVar

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.ft2font import FT2Font
from PIL import Image
from scipy.io import savemat

from skactive import datasets
from skactive.datasets import (
    _characters,
    _stencils,
    list_image_folder,
    load_clinc150,
    load_images,
    load_table,
    make_characters,
    make_repeated,
    read_images,
)
from skactive.datasets._image_sets import IMAGE_SETS

DATA = Path(datasets.__file__).parent / "data"
TTF = Path(matplotlib.get_data_path(), "fonts", "ttf")


# --- repeated pools -------------------------------------------------------------------------------


def test_repeats_are_whole_copies_one_after_the_other(rng):
    X, y = make_repeated(np.arange(6).reshape(3, 2), ["a", "b", "c"], 4, 0.0, rng)
    np.testing.assert_array_equal(X, np.tile(np.arange(6).reshape(3, 2), (4, 1)))
    assert y.tolist() == ["a", "b", "c"] * 4


@pytest.mark.parametrize(("dtype", "expected"), [(np.float32, np.float32), (np.uint8, np.float64)])
def test_noise_of_repeats_has_the_given_deviation(dtype, expected, rng):
    n = 40_000
    X, _ = make_repeated(np.zeros((n, 1), dtype), np.zeros(n), 1, 0.1, rng)
    assert X.dtype == expected
    assert abs(X.std() - 0.1) < 5 * 0.1 / np.sqrt(2 * n)  # 5 standard errors of a normal's deviation
    assert abs(X.mean()) < 5 * 0.1 / np.sqrt(n)


def test_the_original_of_repeats_is_left_alone(rng):
    X = np.ones((3, 2))
    make_repeated(X, [0, 1, 0], 2, 1.0, rng)
    np.testing.assert_array_equal(X, 1.0)


@pytest.mark.parametrize(("repeats", "error"), [(0, ValueError), (1.5, TypeError)])
def test_repeats_must_be_a_positive_integer(repeats, error, rng):
    with pytest.raises(error, match="`repeats`"):
        make_repeated([[0.0]], [0], repeats, 0.1, rng)


def test_noise_of_repeats_must_not_be_negative(rng):
    with pytest.raises(ValueError, match=r"`noise_std` must be a finite number, 0 or larger. Got -0.1"):
        make_repeated([[0.0]], [0], 2, -0.1, rng)


# --- characters -----------------------------------------------------------------------------------

SETTINGS = ["minority", "missing", "spurious"]


def seeded(n, setting, **options):
    return make_characters(n, setting, np.random.default_rng(7), **options)


def within_5_sigma(n_hits, n, p):
    return abs(n_hits - n * p) <= 5 * np.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("setting", SETTINGS)
def test_characters_are_unsigned_bytes_with_a_label_and_a_group_each(setting, global_state_untouched):
    X, y, groups = seeded(300, setting, size=12)
    assert X.shape == (300, 3, 12, 12)
    assert X.dtype == np.uint8
    assert set(y) == set("ad" if setting != "missing" else "abcdefghijklmnopqrstuvwxyz")
    assert set(groups) == ({"visible", "hidden"} if setting == "missing" else {"red", "blue"})


@pytest.mark.parametrize("setting", SETTINGS)
def test_characters_are_the_same_for_the_same_seed_only(setting):
    first, again = seeded(40, setting, size=12), seeded(40, setting, size=12)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    X, _, _ = make_characters(40, setting, np.random.default_rng(8), size=12)
    assert (first[0] != X).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("setting", SETTINGS)
def test_labels_and_groups_depend_on_neither_size_nor_fonts(setting):
    _, *expected = seeded(60, setting, size=12)
    for options in ({"size": 20}, {"size": 12, "fonts": [TTF / "DejaVuSans.ttf"]}):
        _, *found = seeded(60, setting, **options)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("p", [None, 0.5])
def test_few_characters_are_blue_in_minority_whatever_their_class(p):
    n = 4000
    _, y, groups = seeded(n, "minority", size=4, p=p)
    for label in "ad":
        of_class = y == label
        assert within_5_sigma(of_class.sum(), n, 0.5)
        assert within_5_sigma((groups[of_class] == "blue").sum(), of_class.sum(), 0.1 if p is None else p)


def test_colours_tell_the_class_in_spurious():
    _, y, groups = seeded(4000, "spurious", size=4, characters="abcd")
    for label, p in zip("abcd", [0.9, 0.1, 0.9, 0.1], strict=True):
        of_class = y == label
        assert within_5_sigma((groups[of_class] == "blue").sum(), of_class.sum(), p)


def test_a_tenth_is_hidden_in_missing():
    _, _, groups = seeded(4000, "missing", size=4)
    assert within_5_sigma((groups == "hidden").sum(), 4000, 0.1)


@pytest.mark.parametrize("p", [0, 1])
def test_extreme_probabilities_are_certain(p):
    _, _, groups = seeded(50, "missing", size=4, p=p)
    assert set(groups) == {["visible", "hidden"][p]}


def test_red_and_blue_are_the_colours_of_the_characters():
    red, _, _ = seeded(60, "minority", p=0)
    blue, _, _ = seeded(60, "minority", p=1)
    np.testing.assert_array_equal(red[:, 1], blue[:, 1])  # all that differs is the colour of the characters
    r, _, b = (red.astype(int) - blue).transpose(1, 0, 2, 3)
    assert r.min() == b.max() == 0
    np.testing.assert_allclose(r, -b, atol=1)  # rounding
    # Ink that no shape covers is pure; in most images there is some.
    assert np.mean(r.max(axis=(1, 2)) == 255) > 0.5


@pytest.mark.parametrize("size", [5, 8, 13, 32])
def test_a_hidden_image_says_nothing_about_its_character(size):
    X, y, groups = seeded(400, "missing", size=size, p=0.5, characters="mW")
    other, z, _ = seeded(400, "missing", size=size, p=0.5, characters="il")
    assert (y != z).all()
    differs = (other != X).any(axis=(1, 2, 3))
    assert not differs[groups == "hidden"].any()
    assert differs[groups == "visible"].mean() > (0.9 if size < 10 else 0.995)


def test_only_hidden_images_have_a_shape_in_missing():
    none, _, _ = seeded(200, "missing", p=0)
    half, _, groups = seeded(200, "missing", p=0.5)
    same = (none == half).all(axis=(1, 2, 3))
    np.testing.assert_array_equal(same, groups == "visible")


def test_characters_lie_inside_the_image_in_more_than_one_size():
    draw = _characters.draw(_characters.SETTINGS["minority"], 2000, 2, 5, 0.1, np.random.default_rng(0))
    _, size, x, y = draw.place.T
    assert 0.2 < size.min() < 0.4 < 0.8 < size.max() <= 0.9
    for centre in (x, y):
        assert (centre - size / 2).min() > 0
        assert (centre + size / 2).max() < 1


@pytest.mark.parametrize("shape", _stencils.SHAPES)
@pytest.mark.parametrize("side", [6, 31])
def test_shapes_contain_their_circle_and_little_more_than_that(shape, side):
    stencil = np.asarray(_stencils.shape_stencil(shape, side)) / 255
    axis = np.arange(len(stencil)) + 0.5 - len(stencil) / 2
    inside = np.hypot(axis, axis[:, None]) <= side / 2 - 0.75
    assert (stencil[inside] == 1).all()
    area = {"disc": np.pi / 4, "square": 1.0, "triangle": 27**0.5 / 4}[shape] * side**2
    assert abs(stencil.sum() - area) < 0.15 * area


def test_the_default_fonts_have_letters_where_letters_belong():
    fonts = [FT2Font(str(path)) for path in _stencils.find_fonts(None)]
    assert len(fonts) > 15
    for font in fonts:
        names = {font.get_glyph_name(font.get_char_index(ord(letter))) for letter in "abcdxyz"}
        # A font with only some characters falls back to one glyph for the rest: it is left out later.
        assert names == set("abcdxyz") or len(names) == 1, font.fname


def test_fonts_of_a_folder_are_used_if_they_have_all_characters(tmp_path):
    (tmp_path / "below").mkdir()
    shutil.copy(TTF / "cmr10.ttf", tmp_path / "below" / "cmr10.TTF")
    shutil.copy(TTF / "DejaVuSansDisplay.ttf", tmp_path)  # no small letters
    (tmp_path / "readme.txt").write_text("no font")
    X, _, _ = seeded(20, "minority", size=12, fonts=str(tmp_path))
    expected, _, _ = seeded(20, "minority", size=12, fonts=[TTF / "cmr10.ttf"])
    np.testing.assert_array_equal(X, expected)


def test_the_classes_can_be_any_characters_or_words():
    _, y, _ = seeded(30, "spurious", size=8, characters=["no", "ja", "ß"])
    assert set(y) == {"no", "ja", "ß"}


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"p": 1.5}, ValueError, "`p`.*from 0 to 1.*1.5"),
        ({"p": float("nan")}, ValueError, "`p`.*nan"),
        ({"p": "0.5"}, TypeError, "`p`"),
        ({"size": 0}, ValueError, "`size`"),
        ({"n": 2.0}, TypeError, "`n`"),
        ({"n": None}, TypeError, "`n`"),
        ({"setting": "majority"}, ValueError, "`setting`.*'minority', 'missing', 'spurious'.*'majority'"),
        ({"rng": 0}, TypeError, "`rng`"),
        ({"characters": "a"}, ValueError, "`characters`.*two or more"),
        ({"characters": "aba"}, ValueError, "`characters`.*different.*'aba'"),
        ({"characters": ["a", ""]}, ValueError, "`characters`"),
        ({"characters": [1, 2]}, TypeError, "`characters`"),
        ({"characters": "a "}, ValueError, "`fonts`.*`characters` 'a '"),  # nothing to be seen
        ({"characters": "a\ue123"}, ValueError, "`fonts`.*None of the"),  # in no font
        ({"fonts": "no-such-folder"}, ValueError, "`fonts`.*no-such-folder.*not a folder"),
        ({"fonts": ["no-such-font.ttf"]}, ValueError, "`fonts`.*no-such-font.ttf"),
    ],
)
def test_bad_parameters_of_characters_are_named(options, error, says):
    arguments = {"n": 3, "setting": "minority", "rng": np.random.default_rng(0), "size": 8, **options}
    with pytest.raises(error, match=says):
        make_characters(arguments.pop("n"), arguments.pop("setting"), arguments.pop("rng"), **arguments)


def test_a_folder_without_fonts_and_a_broken_font_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"`fonts`.*a folder without any"):
        seeded(3, "minority", fonts=tmp_path)
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    with pytest.raises(ValueError, match=r"`fonts`.*broken.ttf.*OSError"):
        seeded(3, "minority", fonts=tmp_path)


# --- IDX ------------------------------------------------------------------------------------------


def idx(array, axes=None):
    array = np.asarray(array, np.uint8)
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, axes or array.ndim, *array.shape) + array.tobytes()


def plain(content):
    return content


def packed(content):
    return gzip.compress(content, compresslevel=1, mtime=0)


def write_idx(folder, prefix, images, labels, *, pack=packed, dash="-"):
    folder.mkdir(parents=True, exist_ok=True)
    ending = ".gz" if pack is packed else ""
    for kind, array in (("images", images), ("labels", labels)):
        name = f"{prefix}-{kind}{dash}idx{np.ndim(array)}-ubyte{ending}"
        (folder / name).write_bytes(pack(idx(array)))


def some_images(n, rng, n_classes=10, shape=(28, 28)):
    images = np.zeros((n, *shape), np.uint8)  # mostly empty: quick to compress
    images[:20] = rng.integers(256, size=(20, *shape))
    return images, rng.integers(n_classes, size=n).astype(np.uint8)


@pytest.mark.parametrize(
    ("name", "split", "place", "prefix", "n", "n_classes"),
    [
        ("mnist", "train", "MNIST/raw", "train", 60_000, 10),
        ("mnist", "test", "raw", "t10k", 10_000, 10),
        ("fashion_mnist", "test", "FashionMNIST/raw", "t10k", 10_000, 10),
        ("emnist_balanced", "test", "EMNIST/raw", "emnist-balanced-test", 18_800, 47),
        ("emnist_bymerge", "test", "gzip", "emnist-bymerge-test", 116_323, 47),
    ],
)
def test_idx_files_are_read_from_where_torchvision_puts_them(name, split, place, prefix, n, n_classes, tmp_path, rng):
    images, labels = some_images(n, rng, n_classes)
    write_idx(tmp_path / place, prefix, images, labels)
    X, y = load_images(name, tmp_path, split)
    assert X.shape == (n, 1, 28, 28)
    assert (X.dtype, y.dtype) == (np.uint8, np.int64)
    assert X.flags.c_contiguous
    assert X.flags.writeable
    upright = images.transpose(0, 2, 1) if name.startswith("emnist") else images
    np.testing.assert_array_equal(X[:30, 0], upright[:30])
    np.testing.assert_array_equal(y, labels)


@pytest.mark.parametrize("dash", ["-", "."])
@pytest.mark.parametrize("pack", [plain, packed])
def test_idx_files_may_be_compressed_and_spelt_either_way(pack, dash, tmp_path, rng):
    images, labels = some_images(10_000, rng)
    write_idx(tmp_path, "t10k", images, labels, pack=pack, dash=dash)
    X, y = load_images("mnist", str(tmp_path), "test")
    np.testing.assert_array_equal(X[:, 0], images)
    np.testing.assert_array_equal(y, labels)


def test_a_missing_file_is_named_with_its_places_and_where_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="`path` must hold t10k-images-idx3-ubyte") as caught:
        load_images("mnist", tmp_path, "test")
    for part in (str(tmp_path), "MNIST/raw", "torchvision.datasets.MNIST(path, download=True)"):
        assert part in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"`path` must be a folder.*nowhere"):
        load_images("mnist", tmp_path / "nowhere")


def test_an_unknown_set_or_split_is_answered_with_those_known(tmp_path):
    with pytest.raises(ValueError, match=r"`name`.*'cifar10', 'emnist_balanced'.*'usps'"):
        load_images("usps", tmp_path)
    with pytest.raises(ValueError, match=r"`split`.*'test', 'train'.*'extra'"):
        load_images("mnist", tmp_path, "extra")


GOOD_IMAGES, GOOD_LABELS = idx(np.zeros((4, 28, 28))), idx(np.zeros(4))


@pytest.mark.parametrize(
    ("images", "labels", "says"),
    [
        (GOOD_LABELS, GOOD_LABELS, r"images-idx3.*magic number 2051.*Got the magic number 2049"),
        (GOOD_IMAGES, GOOD_IMAGES, r"labels-idx1.*magic number 2049.*Got the magic number 2051"),
        (b"\0\0\x0d\x03" + GOOD_IMAGES[4:], GOOD_LABELS, r"unsigned bytes.*Got the magic number 3331"),  # floats
        (GOOD_IMAGES[:-1], GOOD_LABELS, r"4 x 28 x 28.*Got 3135.*may be incomplete"),
        (GOOD_IMAGES + b"\0", GOOD_LABELS, r"4 x 28 x 28.*Got more"),
        (GOOD_IMAGES[:10], GOOD_LABELS, r"magic number 2051.*and lengths"),
        (b"", GOOD_LABELS, r"images-idx3.*Got the magic number 0"),
        (gzip.compress(GOOD_IMAGES, mtime=0)[:-9], GOOD_LABELS, r"images-idx3.*EOFError"),
        (b"\x1f\x8b no gzip", GOOD_LABELS, r"images-idx3.*Reading it failed"),
        (idx(np.zeros((4, 32, 32))), GOOD_LABELS, r"shape \(1, 28, 28\).*Got images of shape \(1, 32, 32\)"),
        (GOOD_IMAGES, idx(np.zeros(3)), r"Got 4 images and 3 labels"),
        (GOOD_IMAGES, idx([0, 1, 2, 10]), r"labels from 0 to 9\. Got labels from 0 to 10"),
        (GOOD_IMAGES, GOOD_LABELS, r"test split.*10000 images.*Got 4 images"),
    ],
)
def test_a_damaged_idx_file_is_refused_by_name(images, labels, says, tmp_path):
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(images)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(ValueError, match=says) as caught:
        load_images("mnist", tmp_path, "test")
    assert "`path`" in str(caught.value)
    assert "torchvision.datasets.MNIST" in str(caught.value)


@given(st.binary(max_size=40), st.sampled_from([b"", b"\0\0\x08\x03", b"\0\0\x08\x03\0\0\0\x01", b"\x1f\x8b\x08"]))
def test_any_other_bytes_are_refused_by_name(tmp_path_factory, content, start):
    folder = tmp_path_factory.mktemp("idx")
    (folder / "t10k-images-idx3-ubyte").write_bytes(start + content)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(GOOD_LABELS)
    with pytest.raises(ValueError, match="`path`"):
        load_images("mnist", folder, "test")


# --- CIFAR-10 -------------------------------------------------------------------------------------


class Python2Pickler(pickle._Pickler):
    """Writes what Python 2 and numpy of its time wrote: protocol 2, byte strings, numpy's old module names."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_byte_string(self, value):
        content = value.encode() if isinstance(value, str) else value
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)
        self.memoize(value)

    dispatch[bytes] = dispatch[str] = save_byte_string

    def save_global(self, value, name=None):
        if getattr(value, "__name__", "") == "_reconstruct":
            self.write(b"cnumpy.core.multiarray\n_reconstruct\n")
            self.memoize(value)
        else:
            super().save_global(value, name)


def write_python2_pickle(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        Python2Pickler(file, protocol=2).dump(content)


def cifar_batch(n, rng):
    images, labels = some_images(n, rng, shape=(3, 32, 32))
    fields = {b"data": images.reshape(n, 3072), b"labels": labels.tolist(), b"batch_label": b"a batch"}
    return images, labels, {**fields, b"filenames": [b"one.png"] * n}


def test_cifar_test_batch_is_read_from_where_torchvision_puts_it(tmp_path, rng):
    images, labels, content = cifar_batch(10_000, rng)
    write_python2_pickle(tmp_path / "cifar-10-batches-py" / "test_batch", content)
    with warnings.catch_warnings(action="error"):
        X, y = load_images("cifar10", tmp_path, "test")
    np.testing.assert_array_equal(X, images)
    np.testing.assert_array_equal(y, labels)


def test_cifar_training_batches_are_put_together_in_order(tmp_path, rng):
    parts = [cifar_batch(20, rng) for _ in range(5)]
    for i, (_, _, content) in enumerate(parts, start=1):
        write_python2_pickle(tmp_path / f"data_batch_{i}", content)
    with pytest.raises(ValueError, match=r"`path` must hold the train split.*50000.*Got 100 images"):
        load_images("cifar10", tmp_path)
    X, y = IMAGE_SETS["cifar10"].read(tmp_path, "train", 50_000)
    np.testing.assert_array_equal(X, np.concatenate([images for images, _, _ in parts]))
    np.testing.assert_array_equal(y, np.concatenate([labels for _, labels, _ in parts]))
    (tmp_path / "data_batch_3").unlink()
    with pytest.raises(FileNotFoundError, match="`path` must hold data_batch_3"):
        load_images("cifar10", tmp_path)


class Call:
    """What pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("inside", ["alone", "as labels", "in an array"])
@pytest.mark.parametrize("function", [eval, exec, getattr, pickle.loads, Path.mkdir, np.load, np.fromfile])
def test_a_pickle_that_calls_a_function_is_refused_before_the_call(function, inside, tmp_path):
    trace = tmp_path / "was-here"
    argument = trace if function is Path.mkdir else f"__import__('pathlib').Path({str(trace)!r}).mkdir()"
    bad = Call(function, argument)
    content = {
        "alone": bad,
        "as labels": {b"data": np.zeros((1, 3072), np.uint8), b"labels": bad},
        "in an array": {b"data": np.array([bad], dtype=object), b"labels": [0]},
    }[inside]
    write_python2_pickle(tmp_path / "test_batch", content)
    with pytest.raises(ValueError, match=r"`path`.*test_batch.*it calls .*only arrays are read"):
        load_images("cifar10", tmp_path, "test")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([1, 2], "Got a list"),
        ({b"labels": [1]}, r"`data` \(n, 3072\).*Got data of \(\) and labels of \(1,\)"),
        ({b"data": np.zeros((2, 3071), np.uint8), b"labels": [0, 1]}, r"Got data of \(2, 3071\)"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0]}, r"Got data of \(2, 3072\) and labels of \(1,\)"),
        ({b"data": np.zeros((1, 3072)), b"labels": [0]}, "unsigned bytes"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [b"cat"]}, "whole numbers"),
        ({b"data": np.zeros((1, 3072), np.uint8), b"labels": [-1]}, "labels from 0 to 9. Got labels from -1 to -1"),
    ],
)
def test_a_pickle_of_something_else_is_refused_by_name(content, says, tmp_path):
    write_python2_pickle(tmp_path / "test_batch", content)
    with pytest.raises(ValueError, match=says) as caught:
        load_images("cifar10", tmp_path, "test")
    assert "torchvision.datasets.CIFAR10" in str(caught.value)


def test_a_truncated_pickle_is_refused_by_name(tmp_path, rng):
    write_python2_pickle(tmp_path / "test_batch", cifar_batch(20, rng)[2])
    content = (tmp_path / "test_batch").read_bytes()
    for end in (0, 1, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "test_batch").write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"`path`.*test_batch.*Reading it failed"):
            load_images("cifar10", tmp_path, "test")


# --- SVHN -----------------------------------------------------------------------------------------


def svhn_content(n, rng):
    images, labels = some_images(n, rng, shape=(3, 32, 32))
    stored = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
    return images, labels, {"X": images.transpose(2, 3, 1, 0), "y": stored}


def test_svhn_is_read_with_tens_as_zeros(tmp_path, rng):
    images, labels, content = svhn_content(26_032, rng)
    savemat(tmp_path / "test_32x32.mat", content)
    X, y = load_images("svhn", tmp_path, "test")
    assert X.flags.c_contiguous
    np.testing.assert_array_equal(X[:30], images[:30])
    np.testing.assert_array_equal(y, labels)
    assert y.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "the extra split.*531131 images.*Got 25 images"),
        ({"y": np.zeros((25, 1), np.uint8)}, "labels y from 1 to 10"),
        ({"y": np.full((25, 1), 11, np.uint8)}, "labels y from 1 to 10"),
        ({"y": np.ones((24, 1), np.uint8)}, r"y of \(24, 1\)"),
        ({"X": np.zeros((25, 3, 32, 32), np.uint8)}, r"X \(32, 32, 3, n\).*Got X of \(25, 3, 32, 32\)"),
        ({"X": np.zeros((32, 32, 3, 25))}, "unsigned bytes X.*float64"),
    ],
)
def test_svhn_files_that_hold_something_else_are_refused(change, says, tmp_path, rng):
    savemat(tmp_path / "extra_32x32.mat", {**svhn_content(25, rng)[2], **change})
    with pytest.raises(ValueError, match=says):
        load_images("svhn", tmp_path, "extra")


def test_svhn_files_without_the_arrays_or_of_another_kind_are_refused(tmp_path):
    savemat(tmp_path / "train_32x32.mat", {"Z": np.zeros(3)})
    with pytest.raises(ValueError, match=r"train_32x32.mat.*Got no numbers X and no numbers y"):
        load_images("svhn", tmp_path)
    (tmp_path / "train_32x32.mat").write_bytes(b"<html>not found</html>" * 20)
    with pytest.raises(ValueError, match=r"train_32x32.mat' must be a MATLAB file.*torchvision.datasets.SVHN"):
        load_images("svhn", tmp_path)


# --- a folder of folders --------------------------------------------------------------------------


def write_folder(folder, counts, size=(20, 10)):
    for label, n in counts.items():
        (folder / label).mkdir(parents=True)
        for i in range(n):
            Image.new("RGB", size, (10 * i, 0, 200)).save(folder / label / f"{i}.jpg")


def test_a_folder_of_folders_is_listed_in_order_with_its_classes(tmp_path):
    write_folder(tmp_path, {"car": 2, "bus": 1, "empty": 0})
    (tmp_path / "car" / "notes.txt").write_text("no image")
    (tmp_path / "index.csv").write_text("no folder")
    Image.new("L", (3, 3)).save(tmp_path / "bus" / "UPPER.PNG")
    files, y = list_image_folder(tmp_path)
    assert [Path(file).relative_to(tmp_path).as_posix() for file in files] == [
        "bus/0.jpg",
        "bus/UPPER.PNG",
        "car/0.jpg",
        "car/1.jpg",
    ]
    assert y.tolist() == ["bus", "bus", "car", "car"]


def test_images_are_brought_to_one_size_in_red_green_and_blue(tmp_path):
    write_folder(tmp_path, {"car": 2}, size=(100, 30))
    files, _ = list_image_folder(tmp_path)
    grey = tmp_path / "grey.png"
    Image.new("L", (5, 5), 77).save(grey)
    X = read_images([*files, grey], 16)
    assert X.shape == (3, 3, 16, 16)
    assert X.dtype == np.uint8
    expected = np.array([[0, 0, 200], [10, 0, 200], [77, 77, 77]])
    np.testing.assert_allclose(X, np.broadcast_to(expected[..., None, None], X.shape), atol=3)  # JPEG is lossy


def test_images_keep_their_orientation(tmp_path):
    image = np.zeros((8, 8, 3), np.uint8)
    image[:2] = 255  # white at the top
    Image.fromarray(image).save(tmp_path / "top.png")
    (X,) = read_images([tmp_path / "top.png"], 4)
    assert X[:, 0].min() > 200
    assert X[:, 2:].max() == 0


def test_the_counts_of_classes_are_checked_if_given(tmp_path):
    write_folder(tmp_path, {"car": 2, "bus": 1})
    assert len(list_image_folder(tmp_path, {"car": 2, "bus": 1})[0]) == 3
    with pytest.raises(ValueError, match=r"`counts`.*Got 2 images in .*car' instead of 3"):
        list_image_folder(tmp_path, {"car": 3, "bus": 1})
    with pytest.raises(ValueError, match=r"Got 1 images in .*bus' instead of 0"):
        list_image_folder(tmp_path, {"car": 2})
    with pytest.raises(ValueError, match=r"Got 0 images in .*van' instead of 1"):
        list_image_folder(tmp_path, {"car": 2, "bus": 1, "van": 1})


def test_mio_tcd_has_eleven_classes_and_half_a_million_images():
    assert len(datasets.MIO_TCD) == 11
    assert sum(datasets.MIO_TCD.values()) == 519_164


def test_a_folder_without_images_and_files_that_are_none_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list_image_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"`path` must hold a folder with images for each class"):
        list_image_folder(tmp_path)
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"`files`.*broken.jpg.*UnidentifiedImageError"):
        read_images([tmp_path / "broken.jpg"], 8)
    with pytest.raises(FileNotFoundError, match=r"gone\.jpg"):
        read_images([tmp_path / "gone.jpg"], 8)
    with pytest.raises(ValueError, match="`size`"):
        read_images([], 0)


# --- CLINC-150 ------------------------------------------------------------------------------------

CLINC = {
    "train": [[f"question {i}, please", f"intent_{i % 150}"] for i in range(300)],
    "oos_test": [["what is the meaning of NA", "oos"], ["null", "oos"]],
}


def test_clinc_is_read_from_the_authors_json(tmp_path):
    path = tmp_path / "data_full.json"
    path.write_text(json.dumps(CLINC))
    X, y = load_clinc150(path)
    assert X.dtype == object
    assert (X.shape, y.shape) == ((300,), (300,))
    assert (X[7], y[7]) == ("question 7, please", "intent_7")
    X, y = load_clinc150(path, "oos_test")
    assert (X.tolist(), y.tolist()) == (["what is the meaning of NA", "null"], ["oos", "oos"])


@pytest.mark.parametrize(("ending", "pack"), [(".csv", plain), (".csv.gz", packed)])
def test_clinc_is_read_from_a_table(ending, pack, tmp_path):
    rows = [f'{split},{intent},some domain,"{text}"' for split, pairs in CLINC.items() for text, intent in pairs]
    path = tmp_path / f"clinc{ending}"
    path.write_bytes(pack("\n".join(["split,intent,domain,text", *rows]).encode()))
    for split, pairs in CLINC.items():
        X, y = load_clinc150(path, split)
        assert list(map(list, zip(X, y, strict=True))) == pairs


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("no json", r"data.json' must be JSON.*JSONDecodeError.*github.com/clinc"),
        ("[1, 2]", "the split 'train'. Got a list"),
        ('{"test": []}', "the split 'train'. Got the splits test"),
        ('{"train": [["a question"]]}', r"pairs of a sentence and an intent.*row 0 of train"),
        ('{"train": [["a question", 3]]}', r"row 0 of train"),
        ('{"train": [["a question", "an_intent"]]}', "150 intents in train. Got 1"),
    ],
)
def test_clinc_files_that_hold_something_else_are_refused(content, says, tmp_path):
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(ValueError, match=says):
        load_clinc150(tmp_path / "data.json")


def test_a_clinc_table_without_the_columns_or_a_missing_file_is_named(tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"table.csv.*KeyError: 'split'"):
        load_clinc150(tmp_path / "table.csv")
    with pytest.raises(FileNotFoundError, match=r"gone\.json"):
        load_clinc150(tmp_path / "gone.json")


# --- tables that come along -----------------------------------------------------------------------


def test_tables_have_the_rows_and_columns_that_are_documented():
    X, y = load_table("penguins")
    assert X.shape == (344, 6)
    assert X.isna().any(axis=1).sum() == 11
    assert set(X.columns[[str(dtype) in {"object", "str"} for dtype in X.dtypes]]) == {"island", "sex"}
    assert dict(zip(*np.unique(y.astype(str), return_counts=True), strict=True)) == {
        "Adelie": 152,
        "Chinstrap": 68,
        "Gentoo": 124,
    }
    X, y = load_table("hpc")
    assert X.shape == (4331, 7)
    assert not X.isna().to_numpy().any()
    assert np.mean(y == "L") == pytest.approx(0.06, abs=0.001)


def test_an_unknown_table_is_answered_with_those_known():
    with pytest.raises(ValueError, match=r"`name`.*'hpc', 'penguins'.*'iris'"):
        load_table("iris")


def test_tables_are_small_and_their_licences_lie_beside_them():
    files = sorted(DATA.iterdir())
    assert sum(path.stat().st_size for path in files) < 2**21
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    for path in files:
        assert path.name == "README.md" or f"| {path.name} |" in readme
    assert "CC0 1.0" in readme
    assert "Copyright (c) 2023 modeldata authors" in readme
