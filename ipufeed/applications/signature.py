"""The inputs and outputs of an application: plain data, stored in the file as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipufeed.executable.program.file_format import JsonObject
from ipufeed.tf_types import Spec

Role = tuple[str, int]  # of an argument of an application's function: kind and number


@dataclass(frozen=True)
class Shape:
    """The shape and element type of a tensor of an application.

    Attributes:
        element_type: TensorFlow's name of the dtype, such as "float32".
        dimensions: Dimensions of the tensor.
    """

    element_type: str
    dimensions: tuple[int, ...]


@dataclass(frozen=True)
class Feed:
    """One input or output tensor of an application.

    Attributes:
        name: Name of the argument, the variable or the component of an element.
        handle: Identifies the tensor within the application.
        argument: Number of the input or queue that it belongs to.
        tuple_index: Number among the tensors of the same kind.
        shape: Shape and element type.
    """

    name: str
    handle: str
    argument: int
    tuple_index: int
    shape: Shape

    @classmethod
    def of(cls, name: str, kind: str, argument: int, index: int, spec: Spec) -> Feed:
        """Makes a Feed of a tf.TensorSpec, or of another object with shape and dtype."""
        shape = Shape(spec.dtype.name, tuple(int(each) for each in spec.shape))
        return cls(name, f"{kind}.{index}", argument, index, shape)

    @property
    def spec(self) -> Spec:
        """The tf.TensorSpec."""
        dtype = tf.dtypes.as_dtype(self.shape.element_type)
        return tf.TensorSpec(self.shape.dimensions, dtype, self.name)

    def as_json(self) -> list[Any]:
        """Returns the argument of Feed.from_json."""
        shape = [self.shape.element_type, list(self.shape.dimensions)]
        return [self.name, self.handle, self.argument, self.tuple_index, *shape]

    @classmethod
    def from_json(cls, row: Any) -> Feed:
        """Reads the value of as_json; raises TypeError or ValueError."""
        name, handle, argument, index, dtype, dimensions = row
        shape = Shape(str(dtype), tuple(map(int, dimensions)))
        return cls(str(name), str(handle), int(argument), int(index), shape)


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of an application, once and per call.

    Attributes:
        inputs: Inputs of embedded_runtime_start: the arguments of the function, then the
            variables that are not frozen.
        outputs: Results of the function, which calls do not return.
        streamed_inputs: Inputs of each embedded_runtime_call: the components of one
            element of each infeed.
        streamed_outputs: Results of each call: the components of one result of each
            outfeed.
    """

    inputs: tuple[Feed, ...]
    outputs: tuple[Feed, ...]
    streamed_inputs: tuple[Feed, ...]
    streamed_outputs: tuple[Feed, ...]

    def as_json(self) -> JsonObject:
        """Returns the argument of Signature.from_json."""
        return {
            name: [feed.as_json() for feed in getattr(self, name)] for name in _FIELDS
        }

    @classmethod
    def from_json(cls, table: Any) -> Signature:
        """Reads the value of as_json; raises KeyError, TypeError or ValueError."""
        return cls(
            **{name: tuple(map(Feed.from_json, table[name])) for name in _FIELDS}
        )


_FIELDS = ("inputs", "outputs", "streamed_inputs", "streamed_outputs")


def grouped(feeds: tuple[Feed, ...]) -> list[list[Feed]]:
    """Groups feeds by queue, in the order of the queues."""
    queues: dict[int, list[Feed]] = {}
    for feed in feeds:
        queues.setdefault(feed.argument, []).append(feed)
    return [queues[number] for number in sorted(queues)]
