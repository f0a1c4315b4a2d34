"""images(): what is listed, decoded, scaled, and named when it is broken."""

import numpy as np
import pytest
import tensorflow as tf
from sources.test_record_files import stages

from ipufeed.errors import SourceError
from ipufeed.sources import images

COLOURS = {"cat": 10, "dog": 200}


@pytest.fixture
def folder(tmp_path):
    """Two classes of four images each, of four formats and sizes, and other files."""
    for name, colour in COLOURS.items():
        (tmp_path / name).mkdir()
        for k, (ending, encode) in enumerate(
            {
                "jpg": tf.io.encode_jpeg,
                "JPEG": tf.io.encode_jpeg,
                "png": tf.io.encode_png,
                "bmp": bitmap,
            }.items()
        ):
            pixels = np.full([8 + k, 9 + k, 3], colour + k, np.uint8)
            data = encode(pixels)
            data = data if isinstance(data, bytes) else data.numpy()
            (tmp_path / name / f"{k}.{ending}").write_bytes(data)
        (tmp_path / name / "notes.txt").write_text("no image")
        (tmp_path / name / ".hidden.jpg").write_text("no image")
    (tmp_path / ".git").mkdir()
    (tmp_path / "list.txt").write_text("no class")
    return tmp_path


def bitmap(pixels):
    """A 24-bit BMP file, whose rows are padded to four bytes and stand upside down."""
    height, width, _ = pixels.shape
    padding = bytes(-width * 3 % 4)
    body = b"".join(row[:, ::-1].tobytes() + padding for row in pixels[::-1])
    numbers = (
        54 + len(body),
        0,
        54,
        40,
        width,
        height,
        1 | 24 << 16,
        0,
        len(body),
        0,
        0,
        0,
        0,
    )
    return b"BM" + b"".join(number.to_bytes(4, "little") for number in numbers) + body


def elements(dataset):
    return [(image, int(label)) for image, label in dataset.as_numpy_iterator()]


def test_images_come_sorted_with_the_numbers_of_their_classes(folder):
    """By class and name, whatever order the file system has; each as it was written."""
    dataset, names = images(folder)
    found = elements(dataset)

    assert names == ["cat", "dog"]
    assert [label for _, label in found] == [0, 0, 0, 0, 1, 1, 1, 1]
    for number, (image, label) in enumerate(found):
        k = number % 4
        assert image.shape == (8 + k, 9 + k, 3)
        assert image.dtype == np.uint8
        assert abs(float(image.mean()) - list(COLOURS.values())[label] - k) < 2
    assert int(dataset.cardinality()) == 8
    assert dataset.element_spec == (
        tf.TensorSpec([None, None, 3], tf.uint8),
        tf.TensorSpec([], tf.int32),
    )


def test_images_of_one_size_can_be_batched(folder):
    """`resize` gives fixed shapes, and rounds instead of cutting off."""
    dataset, _ = images(folder, resize=(5, 7))
    ((batch, labels),) = dataset.batch(8).as_numpy_iterator()

    assert dataset.element_spec[0] == tf.TensorSpec([5, 7, 3], tf.uint8)
    assert batch.shape == (8, 5, 7, 3)
    assert labels.tolist() == [0] * 4 + [1] * 4
    assert abs(float(batch[2].mean()) - 12) < 1.01


def test_grey_images_have_one_channel(folder):
    """`channels` converts (BMP has no such conversion in TensorFlow, so it is left out)."""
    for path in folder.glob("*/*.bmp"):
        path.unlink()
    dataset, _ = images(folder, channels=1)

    assert {image.shape[-1] for image, _ in elements(dataset)} == {1}


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "gone"])
def test_a_broken_image_is_named_with_its_path(folder, damage):
    """Whatever is wrong with it, the error begins with the path; the others go on."""
    path = folder / "dog" / "0.jpg"
    dataset, _ = images(folder)
    if damage == "gone":
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes({"cut": data[:-60], "text": b"no image", "empty": b""}[damage])

    with pytest.raises(tf.errors.OpError) as caught:
        elements(dataset)
    assert f"{path}: " in caught.value.message
    assert len(elements(dataset.ignore_errors())) == 7


def test_the_name_is_right_where_the_order_is_left_to_chance(folder):
    """An option for speed downstream does not make the error name another file."""
    (folder / "cat" / "3.bmp").write_bytes(b"no image")
    options = tf.data.Options()
    options.deterministic = False
    dataset = images(folder)[0].repeat(3).with_options(options)

    for _ in range(3):
        with pytest.raises(tf.errors.OpError, match=r"cat/3\.bmp: "):
            elements(dataset)


def test_an_iterator_goes_on_with_the_right_name_from_a_checkpoint(folder, tmp_path):
    """The number of the element is part of the iterator's state."""
    (folder / "dog" / "3.bmp").write_bytes(b"no image")
    dataset, _ = images(folder)
    iterator = iter(dataset)
    for _ in range(5):
        next(iterator)
    saved = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    other = iter(dataset)
    tf.train.Checkpoint(iterator=other).read(saved)
    for _ in range(2):
        next(other)

    with pytest.raises(tf.errors.OpError, match=r"dog/3\.bmp: "):
        next(other)


def test_shards_are_apart_and_complete(folder):
    """Images are dealt out one by one, over the classes."""
    shards = [elements(images(folder, shard=(3, k))[0]) for k in range(3)]
    sizes = sorted(image.shape[0] for shard in shards for image, _ in shard)

    assert [len(shard) for shard in shards] == [3, 3, 2]
    assert sizes == sorted(2 * [8, 9, 10, 11])


def test_stages_have_names(folder):
    """Reports show `files`, `read`, `decode` and `resize`."""
    assert {"files", "read", "decode", "resize"} <= stages(
        images(folder, resize=(4, 4))[0]
    )


def test_folders_without_images_are_refused(tmp_path):
    """No folder, no class, an empty class: each with what must be there."""
    with pytest.raises(SourceError, match=r"cannot list .*gone: No such file"):
        images(tmp_path / "gone")
    with pytest.raises(
        SourceError, match=r"has no folders, and each class must be one"
    ):
        images(tmp_path)
    (tmp_path / "cat").mkdir()
    with pytest.raises(SourceError, match=r"cat has no images \(.jpg"):
        images(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"resize": 5}, TypeError, r"\(height, width\), two ints, got 5"),
        ({"resize": (0, 5)}, ValueError, r"in \[1, 65536\], got \(0, 5\)"),
        ({"channels": 2}, ValueError, "`channels` must be 1, 3 or 4, got 2"),
        ({"channels": np.ones(2)}, ValueError, "`channels` must be 1, 3 or 4, got arr"),
        ({"folder": 5}, TypeError, "`folder` must be a path, got int 5"),
        ({"parallel": 0}, ValueError, "`parallel`"),
        ({"shard": (9, 0)}, SourceError, "9 shards, and there are only 8 images"),
    ],
)
def test_bad_arguments_are_named(folder, arguments, error, words):
    """What must be what, and what it was."""
    with pytest.raises(error, match=words):
        images(**{"folder": folder, **arguments})
