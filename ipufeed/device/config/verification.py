"""Keys of verified transfers, in the older function style; see set_verification_options.

Source: names and defaults follow `tensorflow/python/ipu/utils.py` of the release 2.0 of
graphcore/tensorflow.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class KeyId:
    """A key, and the number of the first transfer with it.

    Attributes:
        key: The key. Default: 0.
        start_id: The number; -1 leaves it unchanged. Default: -1.
    """

    key: int = 0
    start_id: int = -1


def _by_feed() -> defaultdict[str, KeyId]:
    return defaultdict(KeyId)


@dataclass
class VerificationOptions:
    """A KeyId for each kind of data of a program; of feeds, by the feed's name.

    No effect on a simulated IPU, whose transfers cannot go wrong.
    """

    inputs: KeyId = field(default_factory=KeyId, init=False)
    input_parameters: KeyId = field(default_factory=KeyId, init=False)
    outputs: KeyId = field(default_factory=KeyId, init=False)
    output_parameters: KeyId = field(default_factory=KeyId, init=False)
    infeeds: defaultdict[str, KeyId] = field(default_factory=_by_feed, init=False)
    outfeeds: defaultdict[str, KeyId] = field(default_factory=_by_feed, init=False)
    checkpoint_in: KeyId = field(default_factory=lambda: KeyId(0, 0), init=False)
    checkpoint_out: KeyId = field(default_factory=lambda: KeyId(0, 0), init=False)
