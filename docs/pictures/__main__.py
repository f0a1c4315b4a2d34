"""python docs/pictures [--measure]: draws the pictures of the guide's pages again.

They are the pictures of the page that `--html` writes, one below the other, drawn from
the results that are stored next to this file. --measure makes these again first, with the
commands that stand here; that takes two minutes. timelines.py has those of pipelines on
several IPUs.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from gate import gate_picture

from ipufeed.benchmark.report import pictures
from ipufeed.parallel.timelines.svg import STYLE
from ipufeed.render.svg import svg, words

HERE = Path(__file__).resolve().parent
WIDTH = 760
# Picture -> words, the result, and what is shown of it.
PICTURES = {
    "read-the-report": [
        ("1  Rate over time", "run", pictures.rate_picture),
        ("2  Waits", "run", pictures.waits_picture),
        ("3  Time between elements", "run", pictures.histogram_picture),
    ],
    "bottleneck": [
        ("The pipeline is the bottleneck", "run", pictures.waits_picture),
        ("The pipeline is not the bottleneck", "memory", pictures.waits_picture),
        ("Its queue is then nearly always full", "memory", pictures.depth_picture),
    ],
    "ci": [("Three branches against main", "gate", gate_picture)],
}
COMMANDS = {
    "run": ["pipeline.py", "--seconds", "8"],
    "memory": ["pipeline.py:make_from_memory", "--seconds", "4"],
}
# Of the picture of the gate: milliseconds for an element of a branch.
MAIN_MS = 10.0
BRANCHES = {
    "10 ms for an element, as on main": 10.0,
    "11 ms": 11.0,
    "10.5 ms, about as much as is allowed": 10.5,
}
RUN_S = 5


def draw(name: str) -> str:
    """A picture as the text of an SVG file."""
    parts, y = [STYLE], 10.0
    for title, source, picture in PICTURES[name]:
        result = json.loads((HERE / f"{source}.json").read_text())
        text = picture(result, WIDTH)
        height = float(re.search(r' height="([\d.]+)"', text)[1])
        parts.append(f'<g font-weight="600">{words(12, y + 14, title)}</g>')
        parts.append(f'<g transform="translate(0 {y + 26:.0f})">{text}</g>')
        y += height + 44
    titles = ", ".join(title for title, _, _ in PICTURES[name])
    return svg(titles, WIDTH, y, parts) + "\n"


def measure() -> None:
    """Makes the results again; all that a run prints is shown."""
    for name, arguments in COMMANDS.items():
        benchmark([*arguments, "--json", f"{name}.json"])
    compared = {name: against_main(each) for name, each in BRANCHES.items()}
    (HERE / "gate.json").write_text(json.dumps(compared, indent=1) + "\n")


def against_main(milliseconds: float) -> dict[str, Any]:
    """The output of `compare --fail-if-slower 5%` for three alternating runs of each."""
    with tempfile.TemporaryDirectory() as folder:
        sides: dict[float, list[str]] = {MAIN_MS: [], -milliseconds: []}
        for number in range(3):
            for side, files in sides.items():
                files.append(f"{folder}/{side}-{number}.json")
                run = ["pipeline.py:make_even", "--no-stages", "--seconds", str(RUN_S)]
                run += ["--set", f"milliseconds={abs(side)}", "--json", files[-1]]
                benchmark(run)
        branch = sides[-milliseconds]
        done = benchmark(
            ["compare", *sides[MAIN_MS], "--", *branch, "--fail-if-slower", "5%"]
        )
    found: dict[str, Any] = json.loads(done)
    return found


def benchmark(arguments: list[str]) -> str:
    """Runs the command; its stdout, whatever the verdict."""
    done = subprocess.run(
        [sys.executable, "-m", "ipufeed.benchmark", *arguments],
        cwd=HERE,
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode in (0, 1, 3), done.returncode
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(prog="python docs/pictures", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="make the results again")
    import timelines  # next to this file, which is what is run

    if parser.parse_args().measure:
        measure()
        timelines.measure()
    for name in PICTURES:
        (HERE / f"{name}.svg").write_text(draw(name), encoding="utf-8")
    for name in timelines.PICTURES:
        (HERE / f"{name}.svg").write_text(timelines.draw(name), encoding="utf-8")


if __name__ == "__main__":
    main()
