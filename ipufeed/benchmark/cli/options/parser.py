"""The options of `python -m ipufeed.benchmark`; without TensorFlow."""

from __future__ import annotations

import argparse
import textwrap

from ipufeed.benchmark.cli.options.compare import EXIT_CODES, add_compare_options
from ipufeed.benchmark.cli.options.device import add_device_options
from ipufeed.benchmark.cli.options.report import add_report_options
from ipufeed.benchmark.cli.options.scaleout import add_scale_options
from ipufeed.benchmark.cli.options.stages import add_stage_options
from ipufeed.benchmark.result.settings import SettingError, Settings
from ipufeed.render.terminal import HelpFormatter, Parser

EPILOG = f"""\
exit codes:
  0    measured (a dataset shorter than asked is measured, with a warning)
{EXIT_CODES}
  2    bad input: options, a file without a dataset, a dataset that fails; the
       result up to the failure is on stdout, with the error in it
  4    nothing was measured: the dataset is empty
  130  Ctrl-C; the result so far is on stdout, also if Ctrl-C is pressed several
       times; pressed again 3 s later it ends the command at once, without one
  143  SIGTERM; likewise
  A dataset that ends the process itself (os._exit, a crash) ends the command
  with its own exit code, which may be 0: an empty stdout is not a result.

examples:
  python -m ipufeed.benchmark                    the built-in JPEG pipeline
  python -m ipufeed.benchmark dataset.py         `dataset` or `make_dataset()`
  python -m ipufeed.benchmark dataset.py:train --seconds 30
  python -m ipufeed.benchmark dataset.py --set batch_size=64 --json result.json
  python -m ipufeed.benchmark dataset.py --verify --what-if decode=2x
  python -m ipufeed.benchmark dataset.py --through device
  python -m ipufeed.benchmark dataset.py --compare base.json \\
      --fail-if-slower 5%
  python -m ipufeed.benchmark compare base.json new.json
  python -m ipufeed.benchmark compare --help
  python -m ipufeed.benchmark dataset.py --html page.html --trace trace.json.gz
  python -m ipufeed.benchmark report result.json --html page.html
  python -m ipufeed.benchmark dataset.py --step-time 12ms --knee
  python -m ipufeed.benchmark selftest           is it right on this machine?
"""


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command without a sub-command."""
    parser = Parser(
        prog="python -m ipufeed.benchmark",
        description=textwrap.dedent(
            """\
            Measures how fast a tf.data pipeline, or another loader (PyTorch, Grain, SPDL,
            Ray, Hugging Face, Keras, a generator), delivers elements to training.

            stdout is the result as JSON and nothing else; a summary, progress, and
            the output of the dataset's file go to stderr."""
        ),
        epilog=EPILOG,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "target",
        nargs="?",
        metavar="FILE[:NAME]",
        help="a Python file that defines `dataset`, or a function like make_dataset() "
        "that returns the dataset or loader; without it a built-in pipeline of JPEGs "
        "in TFRecords is measured",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="assignments",
        help="an argument for the function: of the type of the parameter's annotation, "
        "else a Python literal or text; may be repeated",
    )
    _add_amount_options(parser)
    _add_how_options(parser)
    _add_cold_options(parser)
    add_scale_options(parser)
    add_device_options(parser)
    add_stage_options(parser)
    add_compare_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--json", metavar="FILE", help="write the JSON into FILE as well"
    )
    output.add_argument(
        "--quiet", action="store_true", help="no progress and no summary on stderr"
    )
    add_report_options(parser)
    return parser


def _add_amount_options(parser: argparse.ArgumentParser) -> None:
    amount = parser.add_argument_group(
        "how much (default: 10 s after the first element)"
    )
    amount.add_argument(
        "--epochs",
        type=int,
        metavar="N",
        help="stop after N epochs (of about a second)",
    )
    amount.add_argument(
        "--elements", type=int, metavar="M", help="an epoch is M elements"
    )
    amount.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="stop S seconds after the first element",
    )
    amount.add_argument(
        "--passes", type=int, metavar="N", help="iterate a finite dataset N times"
    )


def _add_how_options(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how")
    how.add_argument(
        "--no-memcpy",
        action="store_true",
        help="do not copy elements into a page-aligned buffer, as a transfer would",
    )
    how.add_argument(
        "--through",
        choices=["device"],
        help="feed the elements through infeed, a loop on the simulated IPU and outfeed, "
        "and report each of these links",
    )
    how.add_argument(
        "--items-per-element",
        type=float,
        metavar="N",
        help="samples in an element, where the pipeline does not show it",
    )


def _add_cold_options(parser: argparse.ArgumentParser) -> None:
    cold = parser.add_argument_group("cold page cache")
    cold.add_argument(
        "--cold",
        action="store_true",
        help="drop the files that the dataset reads from the page cache, before the run "
        "and between passes (--passes); the result reports what stayed in it",
    )
    cold.add_argument(
        "--cold-files",
        action="append",
        default=[],
        metavar="PATTERN",
        help="files to drop instead of those that the pipeline names; implies --cold; may "
        "be repeated",
    )


def settings_of(options: argparse.Namespace) -> Settings:
    """Returns the measurement's settings.

    Raises:
        SettingError: A value is out of range, or two exclude each other.
    """
    return Settings(
        epochs=options.epochs,
        elements=options.elements,
        seconds=options.seconds,
        passes=options.passes,
        memcpy=not options.no_memcpy,
        items_per_element=options.items_per_element,
    )


def message_of(error: Exception) -> str:
    """Returns an error's message, with option names in place of settings' names."""
    if isinstance(error, SettingError):
        return error.worded(lambda name: "--" + name.replace("_", "-"))
    return str(error)
