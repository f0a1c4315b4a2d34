"""Parses the allowed loss of a gate; compare.py has the gate's verdict."""

from __future__ import annotations

import argparse
import re


def parse_allowed_loss(text: str) -> float:
    """Returns `5%` or `0.05` as 0.05.

    Raises:
        argparse.ArgumentTypeError: `text` is not a fraction in [0, 1), as a bare 5.
    """
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(%?)\s*", text)
    value = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(
            f"must be a fraction from 0% to below 100%, as 5% or 0.05, got {text!r}"
        )
    return value
