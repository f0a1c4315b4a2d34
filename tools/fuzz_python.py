"""Fuzzes the readers of files that are written in Python.

    corpus --mutate--> a reader --> a value, or one of its documented errors

Anything else that a reader raises is a finding: the input and the traceback are kept.

Not here: ipufeed.executable.hlo.text, which hands its input to XLA. XLA aborts the process
on many damaged programs; it is only given what XLA itself has written.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mutations import damage_message, damaged, damaged_json


@dataclass(frozen=True)
class Target:
    """A reader under test.

    Attributes:
        inputs: The files of the corpus that it starts from, as a glob.
        mutate: Makes an input of one of them.
        read: Reads it; checks what it can.
        errors: What `read` may raise.
    """

    inputs: str
    mutate: Callable[[bytes, random.Random], bytes]
    read: Callable[[bytes], None]
    errors: tuple[type[Exception], ...]


@dataclass(frozen=True)
class Finding:
    """A reader did not handle its input."""

    data: bytes
    number: int
    text: str


def search(
    target: Target, corpus: Path, seed: int, seconds: float
) -> tuple[int, int, Finding | None]:
    """Reads mutated inputs until the time is over or one is a finding.

    Returns:
        The inputs that were read, those that were accepted, and the finding.
    """
    rng = random.Random(seed)
    originals = [path.read_bytes() for path in sorted(corpus.glob(target.inputs))]
    if not originals:
        raise SystemExit(f"{corpus} has no {target.inputs}")
    for data in originals:
        target.read(data)
    number = accepted = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number += 1
        data = target.mutate(rng.choice(originals), rng)
        try:
            target.read(data)
        except target.errors:
            continue
        except Exception:
            return number, accepted, Finding(data, number, traceback.format_exc())
        accepted += 1
    return number, accepted, None


# ---- Executable files ----


def mutate_file(data: bytes, rng: random.Random) -> bytes:
    """Damages bytes; or the header or a part, with checksums that match again."""
    from ipufeed.executable.program import file_format

    if rng.random() < 0.3:
        return damaged(data, rng)
    header, at = file_format.unpack_header(data)
    rest = data[at:]
    if rng.random() < 0.3:
        length = header["parts"]["program"][0]
        part = damaged(rest[:length], rng)
        header["parts"]["program"] = [len(part), hashlib.sha256(part).hexdigest()]
        rest = part + rest[length:]
    else:
        header = damaged_json(header, rng)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        text = damaged(text, rng)
    fixed = len(text).to_bytes(8, "little") + hashlib.sha256(text).digest()
    return file_format.MAGIC + fixed + text + rest


def read_file(data: bytes) -> None:
    from ipufeed.executable.program import file_format

    entry = file_format.unpack(data)
    assert isinstance(entry.header, dict)
    again = file_format.unpack(file_format.pack(entry))
    assert again.program == entry.program
    assert again.executable == entry.executable


# ---- Programs ----


def mutate_program(data: bytes, rng: random.Random) -> bytes:
    from tensorflow.compiler.xla.service import hlo_pb2

    if rng.random() < 0.3:
        return damaged(data, rng)
    message = hlo_pb2.HloModuleProto.FromString(data)
    for _ in range(rng.randint(1, 3)):
        damage_message(message, rng)
    return bytes(message.SerializeToString())


def read_program(data: bytes) -> None:
    from ipufeed.executable.hlo.hlo import Module
    from ipufeed.executable.program import key

    key.canonical(data)
    module = Module.parse(data)
    for one in module.instructions():
        assert str(one.shape)
        assert one.shape.nbytes is not None
        _ = one.constant
    assert len(module.parameters) + len(module.results) >= 0


def read_executable(data: bytes) -> None:
    from ipufeed.executable.hlo.compiled_code import CompiledCode

    assert CompiledCode.parse(data).code_bytes >= 0


# ---- Results ----


def mutate_result(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return damaged(data, rng)
    text = json.dumps(damaged_json(json.loads(data), rng))
    return text.encode("utf-8", "surrogatepass")


def result_reader(folder: Path) -> Callable[[bytes], None]:
    """Returns a reader for compare and report; its input becomes a file in `folder`."""
    from ipufeed.benchmark.comparing import read_result

    path = folder / "input.json"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        run = read_result.run_of(read_result.read_result(path), "input.json")
        assert run.rate > 0
        assert run.seconds > 0
        assert run.contention >= 0

    return read


def targets(folder: Path) -> dict[str, Target]:
    """Returns all targets by name; `folder` is for temporary files."""
    from ipufeed.errors import ComparisonError, DamagedFileError

    return {
        "executable_file": Target(
            "*.poplar_exec", mutate_file, read_file, (DamagedFileError,)
        ),
        "program": Target("*.hlo", mutate_program, read_program, (ValueError,)),
        "compiled_code": Target(
            "executable.bin", damaged, read_executable, (ValueError,)
        ),
        "result_json": Target(
            "result.json", mutate_result, result_reader(folder), (ComparisonError,)
        ),
    }


PYTHON = ("executable_file", "program", "compiled_code", "result_json")
