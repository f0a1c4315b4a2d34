"""Explains why a program was compiled again: `explain(a, b)` names the causes in words.

    context --> arguments, feeds --> shapes, constants, types, operands, ops, loops
    JSON        interface            paired instructions (pairing.py)

The causes are derived from the two compiled programs alone, not from the functions' calls.

Source: the causes are those of Graphcore's technical note on recompilation, whose last
resort is to compare dumps, which this does.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from ipufeed.errors import DamagedFileError
from ipufeed.executable.explanation.body import Body, op_of
from ipufeed.executable.explanation.cause import Cause
from ipufeed.executable.explanation.context import explain_context
from ipufeed.executable.explanation.interface import explain_interface
from ipufeed.executable.explanation.pairing import pair
from ipufeed.executable.explanation.structure import explain_unrelated
from ipufeed.executable.hlo.hlo import Module
from ipufeed.executable.program.program import Program, programs_of_process
from ipufeed.executable.store.safety import UnsafeError
from ipufeed.render.terminal_text import named

SAME = "the programs are the same"
KEY = re.compile(r"(?:0x)?[0-9a-f]{1,16}", re.IGNORECASE)

# An argument of `explain`.
Reference = Program | str | os.PathLike[str]


def explain(a: Reference, b: Reference) -> list[Cause]:
    """Explains why program `b` is not program `a`.

        for cause in ipufeed.executable.explain("1f2e3d4c5b6a7988", "8a7b6c5d4e3f2a1b"):
            print(cause)

    Args:
        a: The earlier program: a Program; the path of a .poplar_exec file; or a key in
            hex, of this process's programs or of the folder that
            --executable_cache_path in TF_POPLAR_FLAGS names.
        b: The later one.

    Returns:
        The causes, the most important first, and at least one.

    Raises:
        TypeError: An argument is neither of these.
        LookupError: The program does not exist; the message has the places searched.
        DamagedFileError, UnsafeError: The file is damaged or untrusted.

    Threads: any.
    """
    return explain_programs(find_program(a), find_program(b))


def explain_programs(before: Program, after: Program) -> list[Cause]:
    """Returns the causes for which `after` is not `before`, the most important first."""
    if before.key.digest == after.key.digest:
        return [Cause("same", SAME)]
    causes = explain_context(before.context, after.context)
    if before.hlo != after.hlo:
        modules = Module.parse(before.hlo), Module.parse(after.hlo)
        pairing = pair(*modules)
        apart = explain_unrelated(modules, pairing)
        if apart:
            return causes + apart
        found, changed = explain_interface((before, modules[0]), (after, modules[1]))
        causes += found + Body(after, modules, pairing, changed).explain()
        if not any(each.kind != "consequences" for each in causes):
            causes = _first_difference(*modules) + causes
    return causes or [
        Cause("unknown", "the programs differ, but in nothing that is stored of them")
    ]


def _first_difference(before: Module, after: Module) -> list[Cause]:
    """Returns the first instruction, in XLA's order, that differs: the last resort."""
    one, other = list(before.instructions()), list(after.instructions())
    for was, now in zip(one, other, strict=False):
        if (was.opcode, was.shape, was.op_type) != (now.opcode, now.shape, now.op_type):
            text = (
                f"the order of instructions differs: the first other one is {now.opcode} "
                f"{now.shape} of {named(op_of(now))}, before it was {was.opcode} "
                f"{was.shape} of {named(op_of(was))}"
            )
            return [Cause("structure", text, "", op_of(now), source=now.source)]
    if len(one) != len(other):
        text = f"the program has {len(other):,} instructions, before {len(one):,}"
        return [Cause("structure", text, "", "", len(one), len(other))]
    return []


def find_program(reference: Reference) -> Program:
    """Returns the program of a reference.

    Raises:
        TypeError: The argument is not a reference.
        LookupError: The program does not exist.
        DamagedFileError, UnsafeError: Its file cannot be used.
    """
    if isinstance(reference, Program):
        return reference
    if not isinstance(reference, (str, os.PathLike)):
        raise TypeError(
            "a program must be given as a Program, as the path of a .poplar_exec file or "
            f"as a key in hex, got {type(reference).__name__} {reference!r}."
        )
    from ipufeed.executable.store.cache import SUFFIX, cache_folder, read_trusted

    text = os.fspath(reference)
    path = Path(text).expanduser()
    folder = cache_folder()
    if not (path.suffix == SUFFIX or path.exists()):
        if not KEY.fullmatch(text):
            raise LookupError(
                f"{text!r} is neither a file nor a key in hex, such as 1f2e3d4c5b6a7988."
            )
        key = f"{int(text, 16):x}"
        known = [each for each in programs_of_process() if each.key.hex == key]
        if known:
            return known[-1]
        if folder is None:
            raise LookupError(
                f"No program of this process has the key {key}. Name the folder of "
                "executables, to look there, too: "
                "TF_POPLAR_FLAGS=--executable_cache_path=..."
            )
        path = folder / (key + SUFFIX)
    if path.is_dir():
        raise LookupError(
            f"{path} is a folder: name a {SUFFIX} file in it, or set "
            f"TF_POPLAR_FLAGS=--executable_cache_path={path} and name a key."
        )
    try:
        return Program.from_entry(read_trusted(path))
    except DamagedFileError as error:
        raise DamagedFileError(f"{path}: {error}", str(path)) from error
    except UnsafeError as error:
        raise UnsafeError(f"{path}: {error}") from error
    except FileNotFoundError:
        raise LookupError(f"There is no executable {path}.") from None
    except (KeyError, TypeError, ValueError) as error:
        raise LookupError(f"{path} has no readable header: {error}.") from error
