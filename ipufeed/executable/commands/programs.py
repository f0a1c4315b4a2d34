"""Programs that a command line names, by file or key; with their modules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ipufeed import _quiet_import
from ipufeed.executable.commands.common import CommandError, File, files_in, recency
from ipufeed.executable.store.cache import cache_folder

if TYPE_CHECKING:
    from ipufeed.executable.program.program import Program


def load(reference: str) -> Program:
    """The program of a file or key. TensorFlow is imported, quietly.

    Raises:
        LookupError, CommandError: There is none, or it is damaged.
    """
    import_protos()
    from ipufeed.executable.explanation.explain import find_program

    program = find_program(reference)
    return program


def import_protos() -> None:
    """What reads programs, which is TensorFlow's."""
    with _quiet_import.hushed("3"):
        from tensorflow.compiler.xla.service import hlo_pb2  # noqa: F401


def last_two(folder: Path | None = None) -> tuple[File, File]:
    """The last two versions of a program: of the one that was compiled last.

    Raises:
        CommandError: No program is there twice.
    """
    folder = folder or cache_folder()
    if folder is None:
        raise CommandError(
            "Which programs? Name two, by file or key, or a folder that has them: "
            "TF_POPLAR_FLAGS=--executable_cache_path=/tmp/executables"
        )
    files = [
        file for file in files_in(folder) if file.is_executable and not file.problem
    ]
    files.sort(key=recency)
    found: dict[str, File] = {}
    for file in reversed(files):
        name = str(file.header.get("name"))
        if name in found:
            return file, found[name]
        found[name] = file
    raise CommandError(
        f"No program in {folder} has been compiled twice: {len(files)} programs, all of "
        "other names. Name two, by file or key."
    )
