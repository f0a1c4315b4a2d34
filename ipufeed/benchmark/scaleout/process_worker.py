"""A process that measures on request (processes.py); it reports in lines of JSON.

{"ready": true} -->
                <-- {"measure": "alone", "at_ns": 123}
{"done": "alone"} -->            result and stamps are in files
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from ipufeed.benchmark.process.child_process import end_with_parent
from ipufeed.benchmark.process.streams import take_stdout
from ipufeed.benchmark.result.settings import Settings


def main() -> int:
    """Loads the dataset, and measures it once for each request."""
    options = json.loads(sys.argv[1])
    end_with_parent(options["parent"])
    # Ctrl-C in a terminal means the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.fdopen(take_stdout(), "w", buffering=1, encoding="utf-8")
    from ipufeed.benchmark.load.load import ScriptError, load_dataset
    from ipufeed.errors import DatasetFileError, NativeLibraryError
    from ipufeed.sources.loaders.kinds import kind_of

    try:
        dataset, name = load_dataset(
            options["target"], options["assignments"], quiet=True
        )
    except (DatasetFileError, NativeLibraryError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except ScriptError as error:
        error.show()
        return 2
    kind = kind_of(dataset)
    if kind is not None and not kind.passes:
        sys.stderr.write(
            f"--processes reads a loader twice, first in one process alone, and a "
            f"{kind.name} is read once: give a function that makes it.\n"
        )
        return 2
    settings = Settings(**options["settings"])
    output.write('{"ready": true}\n')
    for line in sys.stdin:
        message = json.loads(line)
        _wait_until(message["at_ns"])
        _measure_into(
            Path(options["folder"]), message["measure"], dataset, settings, name
        )
        output.write(json.dumps({"done": message["measure"]}) + "\n")
    return 0


def _wait_until(at_ns: int) -> None:
    """Sleeps until a time of the monotonic clock, which all processes share."""
    left = at_ns - time.monotonic_ns()
    if left > 0:
        time.sleep(left / 1e9)


def _measure_into(
    folder: Path, tag: str, dataset: object, settings: Settings, name: str
) -> None:
    """Measures, and writes the result and the stamps into the folder."""
    import numpy as np

    from ipufeed.benchmark.measuring.loader import measure_loader
    from ipufeed.benchmark.measuring.measure import measure_run
    from ipufeed.benchmark.measuring.run import RawMeasurement, run_measurement
    from ipufeed.sources.loaders.kinds import kind_of

    raws: list[RawMeasurement] = []

    def run(*arguments: Any) -> Any:
        raw, interruption = run_measurement(*arguments)
        if raw is not None:
            raws.append(raw)
        return raw, interruption

    kind = kind_of(dataset)
    if kind is None:
        result = measure_run(run, dataset, settings, name=name)
    else:
        result, _ = measure_loader(
            dataset, kind, settings, name=name, on_raw=raws.append
        )
    np.save(folder / f"{tag}.npy", raws[0].stamps)
    (folder / f"{tag}.json").write_text(
        json.dumps({"ended": bool(raws[0].counters["ended"]), **result.to_dict()})
    )


if __name__ == "__main__":
    code = main()
    from ipufeed.benchmark.process.leave import leave

    leave(code)
