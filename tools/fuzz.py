"""Fuzzes all that reads files: `python tools/fuzz.py --seconds 60 [--seed N] [TARGET ...]`.

    record_scan  canonical                                   libFuzzer, AddressSanitizer
    executable_file  program  compiled_code  result_json     fuzz_python.py

Each target runs in a process of its own for its time, `--jobs` at once, from a seed that is
random and printed. An input that breaks one is kept in `--folder`, and the exit code is 1.
`--corpus` names a folder that fuzz_corpus.py has filled; without it one is made.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fuzz_python
import tensorflow_flags

TOOLS = Path(__file__).parent
ROOT = TOOLS.parent
COMPILE = ("clang++", "-std=c++17", "-g1", "-O1", "-fno-omit-frame-pointer")
SANITIZE = "-fsanitize=fuzzer,address"
NATIVE = ("record_scan", "canonical")
START_S = 300.0  # to start, beyond the seconds of --seconds: only a hang gets there
INPUT_S = 20  # for one input: only a hang gets there


def compile_target(name: str, folder: Path, sources: Path) -> Path:
    """Compiles tools/fuzzers/NAME.cc and returns the program."""
    program = folder / name
    source = str(TOOLS / "fuzzers" / f"{name}.cc")
    if name == "record_scan":
        flags = [f"{SANITIZE},undefined", "-fno-sanitize-recover=all"]
        flags += [f"-I{TOOLS / 'fuzzers' / 'stand_in'}"]
    else:
        # Abseil's containers change their layout when a sanitizer is on, and TensorFlow's
        # libraries, which have the other half of them, were built without.
        flags = [SANITIZE, "-D__has_feature(x)=0", "-Wno-builtin-macro-redefined"]
        flags += [*tensorflow_flags.compile_flags(), *tensorflow_flags.link_flags()]
    command = [
        *COMPILE,
        *(f"-I{each}" for each in (sources, sources / "ipufeed" / "cc")),
        *(f"-I{each}" for each in (ROOT, ROOT / "ipufeed" / "cc")),
        source,
        *flags,
        "-o",
        str(program),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return program


def run_native(name: str, options: argparse.Namespace) -> tuple[bool, str]:
    """Runs a libFuzzer target; returns whether it found nothing, and its last lines."""
    program = compile_target(name, options.folder, options.sources)
    grown = options.folder / f"{name}.corpus"
    grown.mkdir(exist_ok=True)
    command = [str(program), f"-max_total_time={options.seconds}"]
    command += [f"-seed={options.seed}", f"-artifact_prefix={options.folder}/{name}-"]
    command += [f"-timeout={INPUT_S}", "-print_final_stats=1", str(grown)]
    if name == "canonical":
        # A whole small module has some thousands of bytes.
        command += ["-max_len=16384", str(hlo_folder(options))]
    return run(command, options.seconds, "stat::number_of_executed_units")


def hlo_folder(options: argparse.Namespace) -> Path:
    """Returns a folder with nothing but the programs of the corpus."""
    folder: Path = options.folder / "hlo"
    folder.mkdir(exist_ok=True)
    for path in options.corpus.glob("*.hlo"):
        shutil.copy(path, folder)
    return folder


def run_python(name: str, options: argparse.Namespace) -> tuple[bool, str]:
    """Runs a target of fuzz_python.py in a process of its own."""
    command = [sys.executable, __file__, "--child", name, "--seed", str(options.seed)]
    command += ["--seconds", str(options.seconds), "--corpus", str(options.corpus)]
    command += ["--folder", str(options.folder)]
    return run(command, options.seconds, "inputs")


def run(command: list[str], seconds: int, figure: str) -> tuple[bool, str]:
    """Runs a target; returns whether it found nothing, and its figures or its report."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds + START_S,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode == 0:
        return True, "; ".join(line for line in lines if figure in line)
    return False, "\n".join(lines[-60:])


def child(options: argparse.Namespace) -> int:
    """Fuzzes one target in Python, in this process."""
    name = options.child
    with tempfile.TemporaryDirectory() as temporary:
        target = fuzz_python.targets(Path(temporary))[name]
        number, accepted, finding = fuzz_python.search(
            target, options.corpus, options.seed, options.seconds
        )
    print(f"{number} inputs, {accepted} of them accepted")
    if finding is None:
        return 0
    kept = options.folder / f"{name}-{options.seed}-{finding.number}"
    kept.write_bytes(finding.data)
    print(f"{finding.text}\ninput: {kept}")
    return 1


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = (*NATIVE, *fuzz_python.PYTHON)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(every))
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--folder", type=Path, help="for what is found")
    parser.add_argument("--sources", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.targets) - set(every)
    if unknown:
        parser.error(f"`TARGET` must be one of {', '.join(every)}, got {unknown}.")
    options.targets = options.targets or list(every)
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.child:
        return child(options)
    if options.folder is None:
        options.folder = Path(tempfile.mkdtemp(prefix="ipufeed-fuzz-"))
    options.folder.mkdir(parents=True, exist_ok=True)
    print(
        f"seed {options.seed}, {options.seconds} s each, in {options.folder}",
        flush=True,
    )
    if options.corpus is None and options.targets != ["record_scan"]:
        options.corpus = options.folder / "corpus"
        command = [sys.executable, str(TOOLS / "fuzz_corpus.py"), str(options.corpus)]
        subprocess.run(command, check=True, timeout=START_S)

    def fuzz(name: str) -> bool:
        well, text = (run_native if name in NATIVE else run_python)(name, options)
        print(f"{name}: {text}" if well else f"{name} FAILED\n{text}", flush=True)
        return well

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(fuzz, options.targets))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
