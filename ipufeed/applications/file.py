"""The file of an application: the cache's .poplar_exec format with further parts.

    header       the program's header as in the cache, and `application`: see Application
    program, executable   of the application's program
    functions    a FunctionDefLibrary: the graph that is compiled on another CPU
    values       captured tensors, and the variables' values if they are frozen
    program.1, executable.1, ...   of the parts that a pipeline's IPUs run

A file is code that will run. Like files of the cache it is read only if other users cannot
have written it and its checksums match.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2

from ipufeed._version import __version__
from ipufeed.applications.signature import Role, Signature
from ipufeed.errors import DamagedFileError
from ipufeed.executable.program.file_format import (
    Entry,
    JsonObject,
    inflate,
    pack,
)
from ipufeed.executable.store.cache import read_trusted
from ipufeed.render.files import write_whole
from ipufeed.tf_types import Tensor


@dataclass(frozen=True)
class Application:
    """A program that can be called without the Python code that defines it.

    Attributes:
        name: The function's name in the author's code.
        ordinal: The IPU that it was compiled for.
        signature: The inputs and outputs.
        arguments: Role of each argument of the function: (kind, number).
        function: Name of the function in the library.
        library: The serialised FunctionDefLibrary.
        captured: Tensors that the function has captured.
        variables: Values of the variables if they are frozen, else [].
        pipelined: Whether a result may need elements that come after its own.
        programs: The compiled programs, the parts before the program itself.
    """

    name: str
    ordinal: int
    signature: Signature
    arguments: list[Role]
    function: str
    library: bytes = field(repr=False)
    captured: list[Tensor] = field(repr=False)
    variables: list[Tensor] = field(repr=False)
    pipelined: bool
    programs: list[Entry] = field(default_factory=list, repr=False)

    @property
    def shards(self) -> int:
        """Number of IPUs of one replica."""
        return int(self.programs[-1].header.get("shards", 1))

    def is_same(self, other: Application) -> bool:
        """Returns whether another one has the same functions and the same values."""
        return (
            self.library == other.library
            and are_same(self.captured, other.captured)
            and are_same(self.variables, other.variables)
        )

    def functions(self) -> function_pb2.FunctionDefLibrary:
        """Returns the function and those that it calls."""
        return function_pb2.FunctionDefLibrary.FromString(self.library)


def write(path: Path, application: Application) -> None:
    """Writes the file, whole or not at all.

    Raises:
        OSError: The file cannot be written.
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
        "pipelined": application.pipelined,
        "programs": [part.header for part in parts],
    }
    more = {
        "functions": zlib.compress(application.library, 1),
        "values": _serialised([*application.captured, *application.variables]),
    }
    for number, part in enumerate(parts, 1):
        more[f"program.{number}"] = zlib.compress(part.program, 1)
        more[f"executable.{number}"] = part.executable
    header = program.header | {"application": table}
    entry = Entry(header, program.program, program.executable, more)
    write_whole(path, pack(entry), mode=0o600)


def read(path: Path) -> Application:
    """Reads an application's file, written by this user or root.

    Raises:
        tf.errors.NotFoundError: The file does not exist.
        tf.errors.InvalidArgumentError: The file is not an application, is damaged, or was
            written by another version of TensorFlow.
        tf.errors.PermissionDeniedError: Other users may have written it.
        OSError: The file cannot be read.
    """
    try:
        entry = read_trusted(path)
    except FileNotFoundError:
        raise tf.errors.NotFoundError(
            None, None, f"There is no application file {path}."
        ) from None
    except DamagedFileError as error:
        raise _refused(path, str(error)) from error
    except PermissionError as error:
        raise tf.errors.PermissionDeniedError(
            None, None, f"The application file {path} is not used: {error}."
        ) from error
    table = entry.header.get("application")
    if not isinstance(table, dict):
        raise _refused(
            path,
            "it is a compiled program alone, of the executable cache. "
            "experimental_application_compile_op writes applications",
        )
    _refuse_other_version(str(table.get("tensorflow")))
    try:
        return _from_table(table, entry)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"its description is not complete ({type(error).__name__}: {error})"
        raise _refused(path, what) from error


def _refused(path: Path, why: str) -> tf.errors.InvalidArgumentError:
    """Makes the error for a file that is not an application."""
    return tf.errors.InvalidArgumentError(
        None, None, f"{path} is not an application that can be run: {why}."
    )


def _refuse_other_version(written: str) -> None:
    """Raises InvalidArgumentError if another TensorFlow wrote the graph."""
    runtime = tf.version.VERSION.split(".")[:2]
    compiled = written.split(".")[:2]
    if runtime != compiled:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            f"TensorFlow version mismatch. Runtime version is {'.'.join(runtime)}, "
            f"executable version is {'.'.join(compiled)}. Compile the application again.",
        )


def _from_table(table: JsonObject, entry: Entry) -> Application:
    """Makes the application of a file whose checksums match."""
    values = _deserialised(entry.more["values"])
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
        arguments=[(str(kind), int(number)) for kind, number in table["arguments"]],
        function=str(table["function"]),
        library=inflate(entry.more["functions"]),
        captured=values[:count],
        variables=values[count:],
        pipelined=bool(table["pipelined"]),
        programs=[*parts, entry],
    )


def are_same(values: list[Tensor], others: list[Tensor]) -> bool:
    """Returns whether two lists have the same tensors, bit by bit."""
    return len(values) == len(others) and all(
        _bits(one) == _bits(other) for one, other in zip(values, others, strict=True)
    )


def _bits(value: Tensor) -> tuple[object, ...]:
    array = np.asarray(value)
    texts = array.dtype.kind == "O"
    return array.dtype, array.shape, array.tolist() if texts else array.tobytes()


def _serialised(values: list[Tensor]) -> bytes:
    """Serialises arrays of any dtype, without pickle.

    Raises:
        ValueError: They take 2 GiB or more, the limit of a protobuf message.
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


def _deserialised(data: bytes) -> list[Tensor]:
    """Reads the arrays of _serialised().

    Raises:
        ValueError: The bytes are not serialised arrays.
    """
    from google.protobuf.message import DecodeError

    try:
        message = attr_value_pb2.AttrValue.ListValue.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    return [tf.make_ndarray(each) for each in message.tensor]
