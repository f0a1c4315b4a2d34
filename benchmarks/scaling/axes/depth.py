"""Rings of 1 to 255 elements between an infeed's feeder and a program."""

from benchmarks import feeds
from benchmarks.scaling import Axis
from benchmarks.scaling.axes.components import infeed_run
from benchmarks.scaling.turns import in_turns

ABOUT = """An infeed with a prefetch_depth of 1 to 255 elements, and a compiled loop that
takes its elements, of 4 bytes and of 100,352 bytes (32 x 28 x 28 float32). Time for each
element; CPU time is that of the whole process, the feeder's thread included."""
SCALARS, IMAGES = "elements of 4 bytes", "elements of 100 kB"
WAKES = "the two threads wait for each other less often"


def measure(quick: bool) -> Axis:
    """Measures both sizes at all depths."""
    import ipufeed  # noqa: F401, I001 (before TensorFlow's first op)
    import tensorflow as tf

    depths = (1, 32, 255) if quick else (1, 2, 3, 8, 32, 128, 255)
    small, large, repeats = (5_000, 500, 3) if quick else (50_000, 5_000, 9)
    scalar, image = feeds.source(tf.zeros([])), feeds.source(tf.zeros([32, 28, 28]))
    ways = {
        SCALARS: {depth: infeed_run(scalar, small, depth) for depth in depths},
        IMAGES: {depth: infeed_run(image, large, depth) for depth in depths},
    }
    reasons = {(SCALARS, "falls"): WAKES, (IMAGES, "falls"): WAKES}
    return Axis(
        "Depth of the ring",
        ABOUT,
        "elements of depth",
        in_turns(ways, repeats),
        reasons,
    )
