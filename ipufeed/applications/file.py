"""An application as a file: a .poplar_exec of the cache's format, with more parts.

    header       of the program, as in the cache, and `application`: see Application
    program, executable   of the application's program
    functions    a FunctionDefLibrary: the graph that is compiled on another CPU
    values       tensors: what was captured, and the variables' values if they are frozen
    program.1, executable.1, ...   of the parts that a pipeline's IPUs run

A file is code that will run. It is read only where its owner alone can have written it, as
files of the cache are, and only if all of it is what was written (checksums).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2

from ipufeed._version import __version__
from ipufeed.applications.signature import Signature
from ipufeed.executable.program.file_format import (
    DamagedFileError,
    Entry,
    inflate,
    pack,
)
from ipufeed.executable.store.cache import read_trusted, write_whole


@dataclass(frozen=True)
class Application:
    """What can be called without the Python that made it.

    Attributes:
        name: What the function's author calls it.
        ordinal: The IPU that it was compiled for.
        signature: What it takes and gives.
        arguments: Of each argument of the function, what it is: [kind, number].
        function: The name of the function in the library.
        library: A serialised FunctionDefLibrary.
        captured: Tensors that the function has captured.
        variables: The values of its variables, if they are frozen; else none.
        variable_specs: What the variables are, as [dtype, dimensions].
        pipelined: Whether a result may need elements that come after its own.
        programs: What was compiled, the program itself last.
    """

    name: str
    ordinal: int
    signature: Signature
    arguments: list[list[Any]]
    function: str
    library: bytes = field(repr=False)
    captured: list[Any] = field(repr=False)
    variables: list[Any] = field(repr=False)
    variable_specs: list[Any]
    pipelined: bool
    programs: list[Entry] = field(default_factory=list, repr=False)

    @property
    def shards(self) -> int:
        """How many IPUs one copy of the program takes."""
        return int(self.programs[-1].header.get("shards", 1))

    def functions(self) -> function_pb2.FunctionDefLibrary:
        """The function and what it calls."""
        return function_pb2.FunctionDefLibrary.FromString(self.library)


def write(path: Path, application: Application) -> None:
    """Writes the file, whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    *parts, program = application.programs
    table = {
        "name": application.name,
        "ordinal": application.ordinal,
        "ipufeed": __version__,
        "tensorflow": tf.version.VERSION,
        "signature": application.signature.as_json(),
        "arguments": application.arguments,
        "function": application.function,
        "captured": len(application.captured),
        "variables": application.variable_specs,
        "pipelined": application.pipelined,
        "programs": [part.header for part in parts],
    }
    more = {
        "functions": zlib.compress(application.library, 1),
        "values": serialised([*application.captured, *application.variables]),
    }
    for number, part in enumerate(parts, 1):
        more[f"program.{number}"] = zlib.compress(part.program, 1)
        more[f"executable.{number}"] = part.executable
    header = program.header | {"application": table}
    write_whole(path, pack(Entry(header, program.program, program.executable, more)))


def read(path: Path) -> Application:
    """Reads an application that this user or root has written.

    Raises:
        tf.errors.NotFoundError: There is no such file.
        tf.errors.InvalidArgumentError: It is not an application, is damaged, or was
            written by another version of TensorFlow.
        tf.errors.PermissionDeniedError: Other users may have written it.
        OSError: It cannot be read.
    """
    try:
        entry = read_trusted(path)
    except FileNotFoundError:
        raise tf.errors.NotFoundError(
            None, None, f"There is no application file {path}."
        ) from None
    except DamagedFileError as error:
        raise refused(path, str(error)) from error
    except PermissionError as error:
        raise tf.errors.PermissionDeniedError(
            None, None, f"The application file {path} is not used: {error}."
        ) from error
    table = entry.header.get("application")
    if not isinstance(table, dict):
        raise refused(
            path,
            "it is a compiled program alone, of the executable cache. "
            "experimental_application_compile_op writes applications",
        )
    refuse_other_version(str(table.get("tensorflow")))
    try:
        return from_table(table, entry)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"its description is not complete ({type(error).__name__}: {error})"
        raise refused(path, what) from error


def refused(path: Path, why: str) -> tf.errors.InvalidArgumentError:
    """The error for a file that is not an application."""
    return tf.errors.InvalidArgumentError(
        None, None, f"{path} is not an application that can be run: {why}."
    )


def refuse_other_version(written: str) -> None:
    """Raises InvalidArgumentError if another TensorFlow has written the graph."""
    ours = tf.version.VERSION.split(".")[:2]
    theirs = written.split(".")[:2]
    if ours != theirs:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            f"TensorFlow version mismatch. Runtime version is {'.'.join(ours)}, "
            f"executable version is {'.'.join(theirs)}. Compile the application again.",
        )


def from_table(table: dict[str, Any], entry: Entry) -> Application:
    """The application of a file whose checksums have been checked."""
    values = deserialised(entry.more["values"])
    count = int(table["captured"])
    parts = [
        Entry(
            dict(header),
            inflate(entry.more[f"program.{number}"]),
            entry.more[f"executable.{number}"],
        )
        for number, header in enumerate(table["programs"], 1)
    ]
    return Application(
        name=str(table["name"]),
        ordinal=int(table["ordinal"]),
        signature=Signature.from_json(table["signature"]),
        arguments=[[str(kind), int(number)] for kind, number in table["arguments"]],
        function=str(table["function"]),
        library=inflate(entry.more["functions"]),
        captured=values[:count],
        variables=values[count:],
        variable_specs=list(table["variables"]),
        pipelined=bool(table["pipelined"]),
        programs=[*parts, entry],
    )


def serialised(values: list[Any]) -> bytes:
    """Arrays as bytes, of every dtype, and without pickle.

    Raises:
        ValueError: They take 2 GiB or more: the most that a protobuf message can hold.
    """
    message = attr_value_pb2.AttrValue.ListValue()
    total = 0
    for value in values:
        total += value.nbytes
        if total >= 2**31 - 2**20:
            raise ValueError(
                "The values of an application must take less than 2 GiB, and those of "
                "the variables take more: do not freeze the variables, and give them to "
                "embedded_runtime_start."
            )
        message.tensor.append(tf.make_tensor_proto(value))
    return message.SerializeToString(deterministic=True)  # type: ignore[no-any-return]


def deserialised(data: bytes) -> list[Any]:
    """The arrays again.

    Raises:
        ValueError: The bytes are not what `serialised` gives.
    """
    from google.protobuf.message import DecodeError

    try:
        message = attr_value_pb2.AttrValue.ListValue.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    return [tf.make_ndarray(each) for each in message.tensor]
