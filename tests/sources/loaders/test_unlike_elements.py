"""An element that is unlike a loader's first one is refused by what differs."""

import numpy as np
import pytest
import tensorflow as tf

from ipufeed.sources.loaders.as_dataset import Reading, as_dataset, first_of
from ipufeed.sources.loaders.kinds import kind_of

IMAGE, LABEL = np.zeros([2, 2], np.float32), np.zeros(2, np.int32)
UNLIKE = {
    "name": (
        {"image": IMAGE, "labels": LABEL},
        "nothing at ['label'], where the first one has int32 (2,); int32 (2,) at "
        "['labels'], where the first one has nothing: a device takes elements of one "
        "structure. Let the loader give the same arrays in each element.",
    ),
    "shape": (
        {"image": IMAGE[1:], "label": LABEL[1:]},
        "float32 (1, 2) at ['image'], where the first one has float32 (2, 2); int32 (1,) "
        "at ['label'], where the first one has int32 (2,): a device takes elements of one "
        "shape. Pad them, or leave a smaller last batch out (`drop_last=True` of a "
        "DataLoader).",
    ),
    "dtype": (
        {"image": IMAGE, "label": LABEL.astype(np.float32)},
        "float32 (2,) at ['label'], where the first one has int32 (2,): a device takes "
        "elements of one dtype and shape. Let the loader give the same arrays in each "
        "element.",
    ),
    "many": (
        tuple([IMAGE] * 5),
        "nothing at ['image'], where the first one has float32 (2, 2); nothing at "
        "['label'], where the first one has int32 (2,); float32 (2, 2) at [0], where the "
        "first one has nothing; 4 more differences: a device",
    ),
    "class": ({"image": IMAGE, "label": {}}, "nothing at ['label'], where the first"),
}


@pytest.mark.parametrize(("other", "text"), UNLIKE.values(), ids=UNLIKE)
def test_an_element_that_is_unlike_the_first_one_is_named_by_its_places(other, text):
    class Changing:
        def __iter__(self):
            yield {"image": IMAGE, "label": LABEL}
            yield other

    reading, kind = Reading(), kind_of(Changing())
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(as_dataset(kind, first_of(kind), reading))

    assert f"element 1 (from 0) has {text}" in reading.failure.message
