"""ScopedIPUOutfeedQueue: Graphcore's outfeed queue of eager mode."""

from __future__ import annotations

import tensorflow as tf

from ipufeed.queues.outfeed import IPUOutfeedMode, IPUOutfeedQueue


class ScopedIPUOutfeedQueue(IPUOutfeedQueue):
    """An IPUOutfeedQueue that can only be created in eager mode.

    Graphcore's is deleted with its last reference. So is each IPUOutfeedQueue here.

    Args:
        outfeed_mode: See IPUOutfeedQueue. Default: None, which is ALL.
        device_ordinal: See IPUOutfeedQueue. Default: None.

    Raises:
        RuntimeError: Not in eager mode.
    """

    def __init__(
        self,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int | None = None,
    ) -> None:
        if not tf.executing_eagerly():
            raise RuntimeError(
                "ScopedIPUOutfeedQueue can only be created in eager mode."
            )
        super().__init__(outfeed_mode, device_ordinal)
