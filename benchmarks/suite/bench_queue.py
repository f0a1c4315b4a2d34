"""What does an element through an infeed cost? By the depth of the ring and its size.

A `time_` value is for the number of elements in its name; the loop does nothing with them
but take them, the copy into the program included. The dataset costs half a microsecond.
"""

from benchmarks import feeds

DEPTHS = (1, 3, 32, 255)


class _Infeed:
    rounds = 2
    repeat = 5
    number = 1  # each call is far above the 50 ms that a sample needs
    warmup_time = 0.0
    timeout = 300
    shape: tuple[int, ...] = ()

    def setup(self):
        # First, and not at the module's head: asv lists benchmarks without importing it.
        import ipufeed  # noqa: F401, I001
        import tensorflow as tf

        dataset = feeds.source(tf.zeros(self.shape))
        self.run = {
            depth: feeds.program(
                lambda element: None, [], feeds.infeed(dataset, prefetch_depth=depth)
            )
            for depth in DEPTHS
        }


class Scalar(_Infeed):
    """4 bytes: the hand-over itself."""

    def time_50000_depth_1(self):
        self.run[1](50_000)

    def time_50000_depth_3(self):
        self.run[3](50_000)

    def time_50000_depth_32(self):
        self.run[32](50_000)

    def time_50000_depth_255(self):
        self.run[255](50_000)


class Image(_Infeed):
    """32 x 28 x 28 float32, 100 kB."""

    shape = (32, 28, 28)

    def time_5000_depth_3(self):
        self.run[3](5000)

    def time_5000_depth_32(self):
        self.run[32](5000)
