"""Copies traced ops into the default graph, the one that is being built."""

from __future__ import annotations

import contextlib

import tensorflow as tf
from tensorflow.python.framework import ops

from ipufeed.parallel.pipeline.traced import TOKEN_INPUTS, constant_of
from ipufeed.tf_types import FuncGraph, Operation, Tensor


class Copier:
    """Copies ops of one graph into the default graph, one at a time.

    Args:
        source: The FuncGraph that has them.
        values: Replacements of tensors of `source`, by the tensor's id.
        token: The token that the next chained op takes; each copied one replaces it.
            None if no chained op is copied.
        keep_device: Whether copies are placed by the current device scope; otherwise they
            have no device. Default: False.
    """

    def __init__(
        self,
        source: FuncGraph,
        values: dict[int, Tensor],
        token: Tensor,
        keep_device: bool = False,
    ) -> None:
        self.source = source
        self.values = values
        self.token = token
        self.keep_device = keep_device
        self.ops: dict[Operation, Operation] = {}
        self._behind: dict[Operation, list[Operation]] = {}
        # Includes constants: TensorFlow captures small eager tensors as such, and makes
        # them arguments nevertheless.
        self.captured = {id(inside): outside for outside, inside in source.captures}

    def value(self, tensor: Tensor) -> Tensor:
        """Returns the replacement of a tensor; makes that of a constant on demand.

        Raises:
            RuntimeError: The tensor's op has not been copied.
        """
        found = self.values.get(id(tensor))
        if found is None:
            constant = constant_of(tensor)
            if constant is None:
                raise RuntimeError(f"{tensor.name} has not been copied")
            found = self.values[id(tensor)] = tf.constant(constant, tensor.dtype)
        return found

    def copy(self, op: Operation) -> None:
        """Copies an op, whose inputs have replacements, unless its outputs have as well."""
        if op.outputs and all(id(output) in self.values for output in op.outputs):
            return
        if op.outputs and id(op.outputs[0]) in self.captured:
            self.values[id(op.outputs[0])] = self.captured[id(op.outputs[0])]
            return
        token = TOKEN_INPUTS.get(op.type)
        inputs = list(op.inputs)
        if token is not None:
            token %= len(inputs)
        values = [
            self.token if place == token else self.value(tensor)
            for place, tensor in enumerate(inputs)
        ]
        made = self.make(op, values)
        self.ops[op] = made
        for old, new in zip(op.outputs, made.outputs, strict=True):
            if old.dtype not in (tf.resource, tf.variant):
                new.set_shape(old.shape)
            self.values.setdefault(id(old), new)
        if token is not None:
            self.token = made.outputs[-1]

    def make(self, op: Operation, inputs: list[Tensor]) -> Operation:
        """Creates the copy of an op with the given inputs."""
        graph = tf.compat.v1.get_default_graph()
        _add_functions(op, self.source, graph)
        before = {
            made: None
            for each in op.control_inputs
            for made in self._copies_behind(each)
        }
        attributes = {
            name: value
            for name, value in op.node_def.attr.items()
            if name not in ("_class", "_output_shapes")
        }
        with contextlib.ExitStack() as scopes:
            scopes.enter_context(ops.control_dependencies([*before]))
            scopes.enter_context(ops.colocate_with(None, ignore_existing=True))
            if not self.keep_device:
                scopes.enter_context(ops.device(None))
            return graph._create_op_internal(
                op.type,
                inputs,
                [output.dtype for output in op.outputs],
                attrs=attributes,
                op_def=op.op_def,
                name=op.name,
            )

    def _copies_behind(self, op: Operation) -> list[Operation]:
        """Returns the copy of an op that others wait for, or the copies that it waits for.

        An op without results that are used, such as the NoOp of `tf.group`, is not copied.
        """
        if op in self.ops:
            return [self.ops[op]]
        if op not in self._behind:
            found: dict[Operation, None] = {}
            seen, waiting = {op}, [op]
            while waiting:
                each = waiting.pop()
                if each in self.ops or each in self._behind:
                    found |= dict.fromkeys(self._copies_behind(each))
                    continue
                above = {*(tensor.op for tensor in each.inputs), *each.control_inputs}
                waiting += above - seen
                seen |= above
            self._behind[op] = list(found)
        return self._behind[op]


def _add_functions(op: Operation, source: FuncGraph, target: FuncGraph) -> None:
    """Adds the functions that an op calls to the graph of the copy."""
    for value in op.node_def.attr.values():
        names = [value.func.name] if value.HasField("func") else []
        names += [each.name for each in value.list.func]
        for name in names:
            function = source._get_function(name)
            if function is not None:
                target._add_function_recursive(function)
