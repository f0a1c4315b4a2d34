"""What an application takes and gives: plain data, which a file holds as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """The shape and element type of a tensor of an application.

    Attributes:
        element_type: TensorFlow's name of the dtype, such as "float32".
        dimensions: Of the tensor.
    """

    element_type: str
    dimensions: tuple[int, ...]


@dataclass(frozen=True)
class Feed:
    """One tensor that an application takes or gives.

    Attributes:
        name: Of the argument, variable or component of an element.
        handle: What identifies it among all tensors of the application.
        argument: The number of the input or queue that it belongs to.
        tuple_index: Its number among those of the same kind.
        shape: Its shape and element type.
    """

    name: str
    handle: str
    argument: int
    tuple_index: int
    shape: Shape

    @classmethod
    def of(cls, name: str, kind: str, argument: int, index: int, spec: Any) -> Feed:
        """A feed of a tf.TensorSpec, or of what else has a shape and a dtype."""
        shape = Shape(spec.dtype.name, tuple(int(each) for each in spec.shape))
        return cls(name, f"{kind}.{index}", argument, index, shape)

    @property
    def spec(self) -> Any:
        """The tf.TensorSpec."""
        import tensorflow as tf

        dtype = tf.dtypes.as_dtype(self.shape.element_type)
        return tf.TensorSpec(self.shape.dimensions, dtype, self.name)

    def as_json(self) -> list[Any]:
        """What Feed.from_json takes."""
        shape = [self.shape.element_type, list(self.shape.dimensions)]
        return [self.name, self.handle, self.argument, self.tuple_index, *shape]

    @classmethod
    def from_json(cls, row: Any) -> Feed:
        """Raises TypeError or ValueError for what as_json has not made."""
        name, handle, argument, index, dtype, dimensions = row
        shape = Shape(str(dtype), tuple(map(int, dimensions)))
        return cls(str(name), str(handle), int(argument), int(index), shape)


@dataclass(frozen=True)
class Signature:
    """What an application takes once, and for each call.

    Attributes:
        inputs: Given to embedded_runtime_start, once: the arguments of the function, then
            the variables that are not frozen.
        outputs: What the function returns. A call does not give it.
        streamed_inputs: Given to each embedded_runtime_call: the components of one
            element of each infeed.
        streamed_outputs: What a call gives: the components of one result of each outfeed.
    """

    inputs: tuple[Feed, ...]
    outputs: tuple[Feed, ...]
    streamed_inputs: tuple[Feed, ...]
    streamed_outputs: tuple[Feed, ...]

    def as_json(self) -> dict[str, Any]:
        """What Signature.from_json takes."""
        return {
            name: [feed.as_json() for feed in getattr(self, name)] for name in _FIELDS
        }

    @classmethod
    def from_json(cls, table: Any) -> Signature:
        """Raises KeyError, TypeError or ValueError for what as_json has not made."""
        return cls(
            **{name: tuple(map(Feed.from_json, table[name])) for name in _FIELDS}
        )


_FIELDS = ("inputs", "outputs", "streamed_inputs", "streamed_outputs")


def grouped(feeds: tuple[Feed, ...]) -> list[list[Feed]]:
    """The feeds of each queue, in the order of the queues."""
    queues: dict[int, list[Feed]] = {}
    for feed in feeds:
        queues.setdefault(feed.argument, []).append(feed)
    return [queues[number] for number in sorted(queues)]
