"""The options of a run on a cold page cache; imports nothing that is slow."""

from __future__ import annotations

import argparse


def add_cold_options(parser: argparse.ArgumentParser) -> None:
    """Adds --cold and --cold-files."""
    cold = parser.add_argument_group("cold page cache")
    cold.add_argument(
        "--cold",
        action="store_true",
        help="drop the files that the dataset reads from the page cache, before the run "
        "and between passes (--passes); the result has what of them was really cold",
    )
    cold.add_argument(
        "--cold-files",
        action="append",
        default=[],
        metavar="PATTERN",
        help="these files instead of those that the pipeline names; implies --cold; may be "
        "repeated",
    )


def check_cold_options(
    parser: argparse.ArgumentParser, options: argparse.Namespace, on_device: bool
) -> None:
    """Refuses what does not go together with it."""
    options.cold = options.cold or bool(options.cold_files)
    if options.cold and (options.through or on_device):
        device = "--through" if options.through else "what asks for a device"
        parser.error(f"--cold measures a dataset alone: leave out {device}, or --cold.")
