"""The options of runs on several processes; without TensorFlow."""

from __future__ import annotations

import argparse
import re

from ipufeed.benchmark.scaleout.settings import MOST_PROCESSES, ServiceSettings

SHARDINGS = ("off", "dynamic", "file", "data", "file_or_data")
COMPRESSIONS = ("auto", "snappy", "none")
# Not with --processes: they report one process.
REPORTS = ("compare", "html", "parquet", "trace")


def add_scale_options(parser: argparse.ArgumentParser) -> None:
    """Adds --service with its options, and --processes."""
    scale = parser.add_argument_group("several processes (docs/scale-out.md)")
    scale.add_argument(
        "--service",
        metavar="local:N|grpc://HOST:PORT",
        help="run the pipeline in tf.data service: local:N starts a dispatcher and N "
        "workers on this machine; grpc:// names a running service",
    )
    scale.add_argument(
        "--sharding",
        choices=SHARDINGS,
        metavar="HOW",
        default="off",
        help=f"how the workers divide the data: {', '.join(SHARDINGS)} (default: off: "
        "each delivers all of it)",
    )
    scale.add_argument(
        "--compression",
        choices=COMPRESSIONS,
        default="auto",
        help="of the elements that the workers send (default: auto)",
    )
    scale.add_argument(
        "--scale",
        metavar="N,N,...",
        help="measure with these numbers of workers as well, 0 for the pipeline without a "
        "service; with --service local:N",
    )
    scale.add_argument(
        "--kill-worker-after",
        type=float,
        metavar="S",
        help="kill the first worker S seconds after the first element, and measure the "
        "rest of the run; with --service local:N",
    )
    scale.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="run the pipeline in N processes at a time and add their rates, over the "
        "time in which all are in their steady state",
    )


def service_of(
    parser: argparse.ArgumentParser, options: argparse.Namespace, on_device: bool
) -> ServiceSettings | None:
    """Returns the settings of --service; None without it.

    Ends the process with a message if options exclude each other or are out of range.
    """
    chosen = [name for name in ("service", "processes") if getattr(options, name)]
    names = ["through", "cold", "cold_files"]
    names += [*(REPORTS if options.processes else ())]
    names += ["step_time", "knee", "result_bytes", "read_time"] if on_device else []
    others = [each.replace("_", "-") for each in names if getattr(options, each, None)]
    if len(chosen) > 1:
        parser.error("--service and --processes are two ways to scale: give one.")
    if chosen and others:
        parser.error(f"--{chosen[0]} does not go with --{others[0]}: leave one out.")
    if options.service is None:
        for name in ("scale", "kill_worker_after"):
            if getattr(options, name) is not None:
                option = name.replace("_", "-")
                parser.error(f"--{option} needs --service local:N.")
    if options.processes is not None and not 1 <= options.processes <= MOST_PROCESSES:
        parser.error(
            f"--processes must be in [1, {MOST_PROCESSES}], got {options.processes}."
        )
    if options.service is None:
        return None
    service = ServiceSettings(
        service=options.service,
        sharding=options.sharding,
        compression=options.compression,
        scale=_scale_of(parser, options.scale),
        kill_worker_after=options.kill_worker_after,
    )
    local = service.workers
    if local is None and not re.fullmatch(r"grpc://[^/\s]+:\d+", options.service):
        parser.error(
            f"--service must be local:N with N in [1, {MOST_PROCESSES}], or "
            f"grpc://HOST:PORT, got {options.service!r}."
        )
    if local is None:
        for name in ("scale", "kill_worker_after"):
            if getattr(options, name) is not None:
                option = name.replace("_", "-")
                parser.error(
                    f"--{option} needs workers of its own: --service local:N, got "
                    f"{options.service}."
                )
    seconds = options.kill_worker_after
    if seconds is not None and not 0 <= seconds < 1e6:
        parser.error(f"--kill-worker-after must be in [0, 1e6), got {seconds}.")
    return service


def _scale_of(parser: argparse.ArgumentParser, text: str | None) -> tuple[int, ...]:
    """Returns `1,2,4` as distinct numbers in ascending order."""
    if text is None:
        return ()
    if not re.fullmatch(r"\d{1,4}(,\d{1,4})*", text):
        parser.error(f"--scale must be numbers of workers such as 1,2,4, got {text!r}.")
    counts = sorted({int(part) for part in text.split(",")})
    if counts[-1] > MOST_PROCESSES:
        parser.error(
            f"--scale must be at most {MOST_PROCESSES} workers, got {counts[-1]}."
        )
    return tuple(counts)
