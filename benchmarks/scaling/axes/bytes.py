"""Elements of 64 bytes to 64 MiB."""

import functools

from benchmarks import feeds
from benchmarks.iterate import bare, through
from benchmarks.scaling import Axis
from benchmarks.scaling.axes.components import infeed_run
from benchmarks.scaling.turns import in_turns

ABOUT = """One tensor of this size, again and again: the dataset makes it once. "copied" is
the measuring op with its copies, which is the default of the command; the ring itself
passes on references. The infeed has 64 slots, and fewer (3 at least) above 4 MiB. Time for
each element; "the copy" is the part of the wall time in which the consumer copies."""
COPIED = "measuring op, copied"
INFEED = "infeed of a program"
DEPTH_BYTES = 1 << 28  # of a ring, as long as it has 3 slots


def measure(quick: bool) -> Axis:
    """Measures all ways at all sizes."""
    import ipufeed  # noqa: F401, I001 (before TensorFlow's first op)
    import tensorflow as tf

    sizes = [64 * 8**step for step in range(8)]  # to 128 MiB in steps of three bits
    sizes[-1] //= 2
    if quick:
        sizes = sizes[::3]
    uncopied, moved, repeats = (2_000, 1 << 26, 3) if quick else (20_000, 1 << 30, 9)
    count = {size: max(8, min(uncopied, moved // size)) for size in sizes}
    datasets = {size: feeds.source(tf.zeros([size // 4])) for size in sizes}
    ways = {
        "bare C++ loop": {
            x: functools.partial(bare, dataset, uncopied)
            for x, dataset in datasets.items()
        },
        "measuring op": {
            x: functools.partial(through, dataset, uncopied)
            for x, dataset in datasets.items()
        },
        COPIED: {
            x: functools.partial(through, dataset, count[x], copy=True)
            for x, dataset in datasets.items()
        },
        INFEED: {
            x: infeed_run(dataset, count[x], depth=max(3, min(64, DEPTH_BYTES // x)))
            for x, dataset in datasets.items()
        },
    }
    curves = in_turns(ways, repeats)
    by_name = {(curve.what, curve.figure): curve for curve in curves}
    wall, copy = by_name[COPIED, "wall"], by_name[COPIED, "the copy"]
    half = [x for x in wall.xs if copy.median(x) > wall.median(x) / 2]
    reasons = {
        (COPIED, "grows"): "the copy is what grows",
        (INFEED, "grows"): "the copy into the program is what grows",
    }
    axis = Axis("Bytes of an element", ABOUT, "bytes of an element", curves, reasons)
    findings = [
        f"{COPIED}: the copy is more than half of the time from {axis.amount(half[0])} on."
        if half
        else f"{COPIED}: the copy is never more than half of the time."
    ]
    return Axis(axis.title, axis.about, axis.work, curves, reasons, findings)
