"""The same JPEG job, measured by the command in a process of its own for each framework."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.peers import Figure, Group

JOBS = Path(__file__).with_name("jobs")
FILES, LIMIT_S = 256, 300.0
# Job, the package that it needs, and its name.
PEERS = {
    "tf_data": ("tensorflow", "tf.data"),
    "torch_job": ("torch", "PyTorch DataLoader, 2 processes"),
    "grain_job": ("grain", "Grain, 2 threads"),
    "spdl_job": ("spdl", "SPDL, 2 threads"),
}
ABOUT = """256 JPEG files of 320 x 256 pixels; decode, random crop and flip, floats,
batches of 32, two workers (`benchmarks/peers/jobs`). Each is measured by `python -m
ipufeed.benchmark` in a process of its own, without copies; the rate is that of the
steady state. CPU time includes worker processes. The Python ones decode with Pillow,
tf.data with its own decoder."""


def measure(quick: bool) -> Group:
    """Measures all frameworks that are installed."""
    repeats, seconds = (1, 2.0) if quick else (5, 5.0)
    there = {
        job: name
        for job, (package, name) in PEERS.items()
        if importlib.util.find_spec(package) and importlib.util.find_spec("PIL")
    }
    missing = [
        f"{name}: pip install {package} pillow"
        for job, (package, name) in PEERS.items()
        if job not in there
    ]
    found: dict[str, list[dict]] = {job: [] for job in there}
    with tempfile.TemporaryDirectory(prefix="ipufeed-") as folder:
        write_images(Path(folder))
        for _ in range(repeats):
            for job in there:
                found[job].append(run(job, folder, seconds))
    figures = []
    for job, name in there.items():
        rates = [each["steady"]["elements_per_second"] * 32 for each in found[job]]
        figures.append(Figure(name, "rate", "images/s", tuple(rates)))
        cpus = [
            each["resources"]["cpu_seconds_per_element"] / 32 * 1e3
            for each in found[job]
        ]
        figures.append(Figure(name, "CPU of an image", "ms", tuple(cpus)))
    return Group("The same JPEG job", ABOUT, figures, missing)


def run(job: str, folder: str, seconds: float) -> dict:
    """Returns the result of one run of the command."""
    command = [sys.executable, "-m", "ipufeed.benchmark", str(JOBS / f"{job}.py")]
    done = subprocess.run(
        [*command, "--seconds", str(seconds), "--no-stages", "--no-memcpy", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env={**os.environ, "IPUFEED_PEERS_IMAGES": folder},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{job} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def write_images(folder: Path, files: int = FILES) -> None:
    """Writes JPEGs of smooth noise, which are as small as those of photographs."""
    import tensorflow as tf

    generator = np.random.default_rng(1)
    for number in range(files):
        coarse = generator.uniform(0, 255, [16, 20, 3]).astype(np.float32)
        image = tf.cast(tf.image.resize(coarse, [256, 320], "bicubic"), tf.float32)
        image += generator.normal(0, 6, [256, 320, 3])
        pixels = tf.cast(tf.clip_by_value(image, 0, 255), tf.uint8)
        (folder / f"{number:03}.jpg").write_bytes(
            tf.io.encode_jpeg(pixels, quality=90).numpy()
        )
