"""python docs/pictures [--measure]: draws the pictures of the guide's pages again.

They are the pictures of the page that `--html` writes, one below the other, drawn from
the results that are stored beside this file. --measure makes these anew first, with the
command that stands in COMMANDS; that takes half a minute. timelines.py has those of
pipelines on several IPUs.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from ipufeed.benchmark.report import pictures
from ipufeed.benchmark.report.axes import svg, words
from ipufeed.parallel.timeline_svg import STYLE

HERE = Path(__file__).resolve().parent
WIDTH = 760
# Picture -> words, the result, and what is shown of it.
PICTURES = {
    "read-the-report": [
        ("1  Rate over time", "run", pictures.rate_picture),
        ("2  Who waited", "run", pictures.waits_picture),
        ("3  Time between elements", "run", pictures.histogram_picture),
    ],
    "bottleneck": [
        ("The pipeline is the bottleneck", "run", pictures.waits_picture),
        ("The pipeline is not the bottleneck", "memory", pictures.waits_picture),
        ("Its queue is then nearly always full", "memory", pictures.depth_picture),
    ],
}
COMMANDS = {
    "run": ["pipeline.py", "--seconds", "8"],
    "memory": ["pipeline.py:make_from_memory", "--seconds", "4"],
}


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
    """Makes the results anew; all that a run prints is shown."""
    for name, arguments in COMMANDS.items():
        command = [sys.executable, "-m", "ipufeed.benchmark", *arguments]
        subprocess.run(
            [*command, "--json", f"{name}.json"],
            cwd=HERE,
            check=True,
            stdout=subprocess.DEVNULL,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python docs/pictures", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="make the results anew")
    import timelines  # beside this file, which is what is run

    if parser.parse_args().measure:
        measure()
        timelines.measure()
    for name in PICTURES:
        (HERE.parent / f"{name}.svg").write_text(draw(name), encoding="utf-8")
    for name in timelines.PICTURES:
        (HERE.parent / f"{name}.svg").write_text(timelines.draw(name), encoding="utf-8")


if __name__ == "__main__":
    main()
