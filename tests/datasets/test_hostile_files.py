"""Files made to mislead a reader are refused: without a wait, without much memory, and the process goes on."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import sys
import tracemalloc
import warnings
import zlib

import numpy as np
import PIL.Image
import pytest
from PIL import Image
from scipy.io import savemat

from skactive.datasets import _files, list_image_folder, load_clinc150, load_images, make_ihdp, read_images
from skactive.datasets._image_formats import read_cifar_batch, read_svhn
from skactive.datasets._mat_files import matrices

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"


@pytest.fixture
def little_memory():
    """Fails the test that asks for more than 100 MB at once."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 2**20, f"{peak / 2**20:.0f} MiB"


@pytest.fixture
def no_program(monkeypatch):
    """Fails the test that starts another program."""
    started = []
    hook_on = [True]

    def hook(event, arguments):
        if hook_on[0] and event in {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"}:
            started.append((event, arguments[:1]))

    sys.addaudithook(hook)
    yield
    hook_on[0] = False
    assert started == []


def pipe(path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes with a name here")
    os.mkfifo(path)
    return path


# --- what is opened -------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_program")
def test_postscript_under_the_name_of_a_photograph_is_refused_and_starts_no_program(tmp_path):
    (tmp_path / "car").mkdir()
    (tmp_path / "car" / "x.jpg").write_bytes(POSTSCRIPT)
    files, _ = list_image_folder(tmp_path)
    with pytest.raises(ValueError, match=r"`files`: .*x\.jpg' must be an image in one of the formats BMP, GIF, JPEG"):
        read_images(files, 8)


@pytest.mark.parametrize("kind", ["BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP"])
def test_the_formats_that_are_named_are_read_whatever_the_name_of_the_file(kind, tmp_path):
    image = Image.new("RGB", (12, 12), (200, 100, 0))
    try:
        image.save(tmp_path / "picture", kind)
    except (KeyError, OSError):
        pytest.skip("this Pillow was built without the format")
    (X,) = read_images([tmp_path / "picture"], 4)
    np.testing.assert_allclose(X[:, 1, 1], [200, 100, 0], atol=20)  # a palette, or losses


def test_pipes_are_left_out_of_a_folder_and_refused_elsewhere(tmp_path):
    (tmp_path / "car").mkdir()
    Image.new("L", (3, 3)).save(tmp_path / "car" / "a.png")
    x = pipe(tmp_path / "car" / "b.png")
    files, _ = list_image_folder(tmp_path)
    assert [os.path.basename(file) for file in files] == ["a.png"]
    for read in (
        lambda: read_images([x], 8),
        lambda: load_clinc150(x),
        lambda: make_ihdp(x, np.random.default_rng(0)),
        lambda: read_images(["/dev/zero" if os.path.exists("/dev/zero") else x], 8),
    ):
        with pytest.raises(ValueError, match="it is not a regular file"):
            read()


def test_one_path_is_no_list_of_paths(tmp_path):
    with pytest.raises(TypeError, match=r"`files` must be a list of paths. Got one path, 'a.png'"):
        read_images("a.png", 8)


# --- pixels ---------------------------------------------------------------------------------------

RAMP = np.arange(0, 2**16, 2**12).reshape(4, 4)


@pytest.mark.parametrize("ending", ["png", "tiff", "jp2"])
def test_sixteen_bits_keep_their_upper_eight(ending, tmp_path):
    Image.fromarray(RAMP.astype(np.uint16)).save(tmp_path / f"deep.{ending}")
    Image.fromarray((RAMP >> 8).astype(np.uint8)).save(tmp_path / "flat.png")
    deep, flat = read_images([tmp_path / f"deep.{ending}", tmp_path / "flat.png"], 4)
    np.testing.assert_array_equal(flat[0].ravel(), np.arange(0, 256, 16))
    np.testing.assert_array_equal(deep, flat)


def tiff(values, *, bits=(16,), photometric=1, sample_format=1):
    """A grey TIFF file with these tags, in one strip."""
    content = values.tobytes()
    fields = {
        256: values.shape[1],
        257: values.shape[0],
        258: bits[0],
        259: 1,
        262: photometric,
        273: 0,
        277: 1,
        278: values.shape[0],
        279: len(content),
        339: sample_format,
    }
    fields[273] = 8 + 2 + 12 * len(fields) + 4
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields.items())
    return b"II*\0" + struct.pack("<IH", 8, len(fields)) + entries + b"\0\0\0\0" + content


@pytest.mark.parametrize(
    ("values", "tags"),
    [
        (RAMP.astype("<u2"), {"photometric": 0}),  # 0 is white
        (RAMP.astype("<i2"), {"sample_format": 2}),
        (RAMP.astype("<i4"), {"bits": (32,), "sample_format": 2}),
        (RAMP.astype("<u4"), {"bits": (32,)}),
        ((RAMP / 2**16).astype("<f4"), {"bits": (32,), "sample_format": 3}),
    ],
)
def test_pixels_of_a_range_that_is_not_known_are_refused(values, tags, tmp_path):
    (tmp_path / "deep.tiff").write_bytes(tiff(values, **tags))
    with pytest.raises(ValueError, match=r"deep\.tiff.*Reading it failed"):
        read_images([tmp_path / "deep.tiff"], 4)


def test_the_tiff_files_made_here_are_right_but_for_their_tags(tmp_path):
    (tmp_path / "deep.tiff").write_bytes(tiff(RAMP.astype("<u2")))
    np.testing.assert_array_equal(read_images([tmp_path / "deep.tiff"], 4)[0, 0].ravel(), np.arange(0, 256, 16))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_integers_of_32_bits_and_floats_that_pillow_saved_are_refused(mode, tmp_path):
    Image.fromarray(RAMP.astype(np.int32 if mode == "I" else np.float32), mode=None).save(tmp_path / "deep.tiff")
    with pytest.raises(ValueError, match=r"floats or integers of an unusual range; save it with 8 or 16 bits"):
        read_images([tmp_path / "deep.tiff"], 4)


def png(width, height):
    """A PNG file of grey pixels that are all black, packed by gzip's method to a thousandth."""
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(b"\0" * (width + 1)) for _ in range(height)) + packer.flush()
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.usefixtures("little_memory")
def test_an_image_of_many_more_pixels_than_its_size_lets_expect_is_refused_before_it_is_decoded(tmp_path):
    (tmp_path / "wide.png").write_bytes(png(10_000, 10_000))
    with pytest.raises(ValueError, match=r"10000 x 10000 pixels, more than PIL\.Image\.MAX_IMAGE_PIXELS, \d+"):
        read_images([tmp_path / "wide.png"], 8)


def test_the_limit_of_pixels_is_pillows_own(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(png(20, 20))
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 300)
    with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match="20 x 20 pixels"):
        read_images([tmp_path / "a.png"], 8)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", None)
    assert read_images([tmp_path / "a.png"], 8).shape == (1, 3, 8, 8)


# --- gzip -----------------------------------------------------------------------------------------


def zeros_packed(start, n_mib):
    """A gzip file of a thousandth of what it holds: a start, then zeros."""
    return gzip.compress(start) + gzip.compress(bytes(2**20)) * n_mib


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((4, 28, 28), r"as many values as its header announces, 4 x 28 x 28. Got more"),
        ((400_000, 28, 28), r"7840000 values or fewer. Got a header that announces 400000 x 28 x 28"),
        ((2**32 - 1, 2**32 - 1, 2**32 - 1), "7840000 values or fewer"),
    ],
)
def test_of_an_idx_file_no_more_is_unpacked_than_its_set_holds(shape, says, tmp_path):
    content = zeros_packed(b"\0\0\x08\x03" + struct.pack(">3I", *shape), 300)
    assert len(content) < 2**20
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(ValueError, match=says):
        load_images("mnist", tmp_path, "test")


@pytest.mark.parametrize("name", ["data.json", "table.csv.gz"])
def test_of_a_text_no_more_is_unpacked_than_is_reasonable(name, tmp_path, monkeypatch):
    assert _files.MOST_BYTES == 64 * 2**20
    monkeypatch.setattr(_files, "MOST_BYTES", 2**20)
    (tmp_path / name).write_bytes(zeros_packed(b"", 300))
    tracemalloc.start()
    for read in (load_clinc150, lambda path: make_ihdp(path, np.random.default_rng(0))):
        with pytest.raises(ValueError, match=r"it holds more than 1 MiB, unpacked"):
            read(tmp_path / name)
    assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    tracemalloc.stop()


def test_a_packed_file_with_a_damaged_end_is_refused(tmp_path):
    header = b"\0\0\x08\x03" + struct.pack(">3I", 10_000, 28, 28)
    content = bytearray(gzip.compress(header + bytes(7_840_000)))
    content[-6] ^= 1  # of the checksum
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(ValueError, match="BadGzipFile: CRC check failed"):
        load_images("mnist", tmp_path, "test")


# --- pickles --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x80\x02}r" + struct.pack("<I", 2**31 - 1) + b".", "announces 2147483647 values to be used again"),
        (b"\x80\x02}p9999999999\n.", "announces 9999999999 values"),
        (b"\x80\x02T" + struct.pack("<i", 2**31 - 1) + b"abc.", "2147483647 bytes"),
        # A tuple of a tuple twice, 60 times, as the key of a dict: its hash would take 2^60 steps.
        (b"\x80\x02})" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(60)) + b"K\x01s.", "uses value 0 again"),
        (b"\x80\x02})" + b"2\x86" * 60 + b"K\x01s.", "uses DUP"),
        # A list of a list four times, 30 times: as an array it would have 4^30 values.
        (
            b"\x80\x02}U\x06labels]q\0"
            + b"".join(b"0]q%c(" % i + b"h%c" % (i - 1) * 4 + b"e" for i in range(1, 31))
            + b"s.",
            r"labels of \(0,\)",
        ),
    ],
)
def test_a_small_pickle_does_not_ask_for_much_memory_or_time(content, says, tmp_path):
    (tmp_path / "test_batch").write_bytes(content)
    with pytest.raises(ValueError, match=says):
        load_images("cifar10", tmp_path, "test")


def test_a_pickle_of_a_later_protocol_is_refused(tmp_path):
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"labels": [1]}, protocol=4))
    with pytest.raises(ValueError, match="which Python 2 does not"):
        read_cifar_batch(tmp_path / "test_batch")


# --- MATLAB files ---------------------------------------------------------------------------------

N = 6
PIXELS = np.random.default_rng(0).integers(256, size=(32, 32, 3, N)).astype(np.uint8)
DIGITS = np.arange(1, N + 1, dtype=np.uint8)[:, None]


def mat(packed=False, **arrays):
    target = io.BytesIO()
    savemat(target, arrays or {"X": PIXELS, "y": DIGITS}, do_compression=packed)
    return bytearray(target.getvalue())


def read_mat(tmp_path, content):
    (tmp_path / "x.mat").write_bytes(content)
    return read_svhn(tmp_path / "x.mat", 100)


def assert_right(images, labels):
    np.testing.assert_array_equal(images, PIXELS.transpose(3, 2, 0, 1))
    np.testing.assert_array_equal(labels, DIGITS.ravel())


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"cell": np.array([1, "a"], dtype=object), "text": "a", "z": np.array([1j]), "s": {"a": 1}},
        {"y": DIGITS.astype(float)},
        {"y": DIGITS.T.astype(np.int16)},
    ],
)
def test_both_arrays_are_read_as_they_were_saved(packed, more, tmp_path):
    assert_right(*read_mat(tmp_path, mat(packed, **{**more, "X": PIXELS, "y": more.get("y", DIGITS)})))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (0, 3), (2, 3, 4)])
@pytest.mark.parametrize("packed", [False, True])
def test_arrays_of_every_kind_of_number_are_read(dtype, shape, packed, rng):
    array = rng.integers(100, size=shape).astype(dtype)
    matrix = matrices(io.BytesIO(mat(packed, a=array)))["a"]
    assert (matrix.shape, matrix.dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(matrix.values(), array, strict=True)


def test_a_file_of_the_other_byte_order_is_read():
    def part(kind, content):
        return struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)

    name = struct.pack(">HH", 1, 1) + b"y\0\0\0"  # lengths and types of small parts are the two halves of one number
    values = part(3, np.arange(6, dtype=">i2").tobytes())
    body = part(6, struct.pack(">II", 9, 0)) + part(5, struct.pack(">ii", 2, 3)) + name + values
    content = b"MATLAB".ljust(124) + b"\x01\x00MI" + part(14, body)
    y = matrices(io.BytesIO(content))["y"].values()
    np.testing.assert_array_equal(y, np.arange(6, dtype=np.uint8).reshape(2, 3, order="F"), strict=True)


@pytest.mark.parametrize("packed", [False, True])
def test_a_wrong_byte_anywhere_in_the_headers_is_an_error_or_changes_nothing(packed, tmp_path):
    # scipy's loadmat ends the process for some of these.
    content = mat(packed)
    n_pixels = PIXELS.size
    places = (
        [*range(116, 240), *range(len(content) - 150, len(content))]
        if packed
        else [place for place in range(116, len(content)) if place < 240 or place > 180 + n_pixels]
    )
    n_read = 0
    for place in places:
        damaged = content.copy()
        damaged[place] ^= 0xFF
        try:
            images, labels = read_mat(tmp_path, damaged)
        except ValueError:
            continue
        n_read += 1
        assert (images.shape, labels.shape) == ((N, 3, 32, 32), (N,))
    assert n_read < len(places) / 2


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_ends_early_is_refused(packed, tmp_path):
    content = mat(packed)
    for end in [*range(0, 300, 7), len(content) // 2, len(content) - 1]:
        with pytest.raises(ValueError, match="`path`"):
            read_mat(tmp_path, content[:end])


def test_damaged_pixels_are_seen_where_they_are_packed(tmp_path):
    content = mat(packed=True, X=np.zeros_like(PIXELS), y=DIGITS)
    start = 128 + 8
    n_packed = struct.unpack("<I", content[start - 4 : start])[0]
    unpacked = bytearray(zlib.decompress(content[start : start + n_packed]))
    unpacked[-1] ^= 1
    body = zlib.compress(unpacked)[:-4] + content[start + n_packed - 4 : start + n_packed]  # the old checksum
    with pytest.raises(ValueError, match="incorrect data check"):
        read_mat(tmp_path, content[: start - 4] + struct.pack("<I", len(body)) + body + content[start + n_packed :])


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("n", [101, 2**31 - 1])
def test_more_images_than_the_set_holds_are_refused_before_they_are_unpacked(n, tmp_path):
    def part(kind, content):
        return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)

    def array(name, *shape):
        flags, lengths = struct.pack("<II", 9, 0), struct.pack(f"<{len(shape)}i", *shape)
        body = part(6, flags) + part(5, lengths) + part(1, name) + struct.pack("<II", 2, 2**32 - 1) + bytes(2**22)
        packed = zlib.compress(struct.pack("<II", 14, 2**32 - 1) + body)
        return struct.pack("<II", 15, len(packed)) + packed

    content = mat()[:128] + array(b"X", 32, 32, 3, n) + array(b"y", n, 1)
    with pytest.raises(ValueError, match=rf"n at most 100.*Got X of \(32, 32, 3, {n}\)"):
        read_mat(tmp_path, content)


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"train": 5}', "must hold the split 'train'. Got a int"),
        ('{"train": "ab"}', "must hold the split 'train'. Got a str"),
        ('{"train": ["ab"]}', "pairs of a sentence and an intent. Got 'ab' in row 0"),
        ('{"train": [3]}', "pairs of a sentence and an intent. Got 3 in row 0"),
        ("[" * 100_000, "RecursionError"),
    ],
)
def test_json_of_another_shape_is_refused_by_name(content, says, tmp_path):
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(ValueError, match=says):
        load_clinc150(tmp_path / "data.json")
