"""Copies a host embedding's table to its variable, before whatever reads the variable.

In the original the two share their memory. Here the table is a copy for as long as it is
registered, and the variable gets the rows when a program other than a lookup wants them:
a saver of checkpoints, the user, the end of the registration.

Threads: any.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from ipufeed.ops.host.tables import Table
from ipufeed.tf_types import Nest, Variable


class _Watched:
    """An object's method, in front of which copies are made while there are any.

    Registrations may end in another order than they began.
    """

    _lock = threading.Lock()
    _all: ClassVar[dict[int, _Watched]] = {}

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name
        self._own = vars(owner).get(name)
        self._copies: list[TableCopies] = []
        self.inner = getattr(owner, name)

    @classmethod
    def add(cls, owner: Any, name: str, copies: TableCopies) -> _Watched:
        """Makes copies before each call of an object's method from now on."""
        with cls._lock:
            found = cls._all.get(id(owner))
            if found is None:
                found = cls._all[id(owner)] = cls(owner, name)
                setattr(owner, name, found._call)
            found._copies.append(copies)
            return found

    def remove(self, copies: TableCopies) -> None:
        """Ends that; the method is the object's own again when no copies are left."""
        with self._lock:
            self._copies.remove(copies)
            if self._copies:
                return
            del self._all[id(self._owner)]
            if self._own is None:
                delattr(self._owner, self._name)
            else:
                setattr(self._owner, self._name, self._own)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        for copies in list(self._copies):
            copies.before(*args)
        return self.inner(*args, **kwargs)


class TableCopies:
    """The copies of a registered table to its variable.

    Args:
        table: The table.
        variable: A variable; a tensor gets no copies.
        session: The session of a version 1 graph, or None in eager mode.
    """

    def __init__(self, table: Table, variable: Variable, session: Any) -> None:
        self._table, self._variable = table, variable
        self._is_variable = isinstance(variable, tf.Variable)
        # A monitored session runs this one; so do its hooks.
        inner = getattr(session, "_tf_sess", None)
        self._session = session if inner is None else inner()
        self._reads: dict[tuple[str, ...], bool] = {}

    @contextlib.contextmanager
    def before_reads(self) -> Iterator[None]:
        """A context in which reads of the variable see the table's rows.

        At its end the variable has them. A function that reads the variable, and was
        traced before, sees those of the last read outside of functions.
        """
        if not self._is_variable:
            yield
            return
        watched = (
            _Watched.add(self._variable, "_read_variable_op", self)
            if self._session is None
            else _Watched.add(self._session, "run", self)
        )
        self._inner = watched.inner
        try:
            yield
        finally:
            watched.remove(self)
            self._copy()

    def before(self, *args: Any) -> None:
        """Copies the rows if a call of the session or variable is going to read them.

        Args:
            args: The positional arguments of the call: those of Session.run, if there is a
                session.
        """
        if self._session is None:
            if tf.executing_eagerly():
                self._copy()
        elif self._table.changed and (not args or self._reads_variable(args[0])):
            self._copy()

    def _copy(self) -> None:
        with self._table.lock:
            if not self._table.changed:
                return
            self._table.changed = False
            rows = np.array(self._table.rows)
        try:
            if self._session is None:
                self._variable.assign(rows)
            else:
                assign = self._variable.initializer
                self._inner(assign, {assign.inputs[1]: rows})
        except BaseException:
            self._table.changed = True  # the next read, or the end, copies it
            raise

    def _reads_variable(self, fetches: Nest) -> bool:
        """Whether a run of these needs the variable, or cannot be run at all."""
        graph = self._session.graph
        try:
            elements = [
                graph.as_graph_element(each)
                for each in tf.nest.flatten(fetches, expand_composites=True)
            ]
        except (KeyError, TypeError, ValueError):  # the run raises its own
            return True
        ops = [getattr(each, "op", each) for each in elements]
        names = tuple(each.name for each in ops)
        if names not in self._reads:
            self._reads[names] = _needs(ops, self._variable.handle.op)
        return self._reads[names]


def _needs(ops: list[Any], wanted: Any) -> bool:
    """Whether operations need another one, as an input of theirs or of what they need."""
    left, seen = list(ops), set(ops)
    while left:
        op = left.pop()
        if op is wanted:
            return True
        before = {each.op for each in op.inputs} | set(op.control_inputs)
        left += before - seen
        seen |= before
    return False
