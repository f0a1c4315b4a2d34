"""Devices of several IPUs for tests, and programs on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import styles
import tensorflow as tf

from ipufeed.device.config.config import IPUConfig
from ipufeed.device.system import system

v1 = tf.compat.v1


def configure(*num_ipus: int) -> None:
    """Sets the number of IPUs of each device."""
    config = IPUConfig()
    config.auto_select_ipus = list(num_ipus)
    system.configure_ipu_system(config)


@contextmanager
def on(num_ipus: int, style: str = "function") -> Iterator[Any]:
    """A style of tests/support/styles.py, on a device of `num_ipus` IPUs."""
    configure(num_ipus)
    with styles.entered(style, "xla") as entered:
        yield entered


def run_loop(style: Any, count: int, body: Any, infeed: Any = None) -> Any:
    """A program of one loop that carries nothing."""
    return style.run(lambda: style.repeat(count, body, [], infeed))
