"""IPUInfeedQueue: a dataset that programs on an IPU read from."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

import tensorflow as tf

from ipufeed import _native
from ipufeed.checks import flags_checked
from ipufeed.no_effect import no_effect
from ipufeed.queues import eager_calls, interrupt, structure
from ipufeed.queues.arguments import (
    check_prefetch_depth,
    drop_old_arguments,
    named_by_position,
)
from ipufeed.queues.chain import host_number, put_token, take_token
from ipufeed.queues.eager_calls import plain_errors
from ipufeed.queues.hooks import checked_ordinal, device_hooks
from ipufeed.queues.placement import check_placement, check_resources
from ipufeed.queues.stats import QueueStats, read_stats
from ipufeed.tf_types import Dataset, Nest, Operation, Tensor, TensorSpec

if TYPE_CHECKING:
    from ipufeed.queues.iterators import InfeedSpec

DEFAULT_DEPTH = 32

_numbers = itertools.count()


class IPUInfeedQueue:
    """Feeds a dataset's elements to the programs of one IPU.

    A thread of the queue reads the dataset, as `iter(dataset)` would, into a lock-free
    ring; a program dequeues one element in each iteration. The thread starts to read with
    the first program that dequeues, so that resources of the dataset, such as a lookup
    table, may be initialised after the queue. (`read_ahead` starts it earlier.) The ring
    exists from the initializer to the deleter: a program continues at the element after
    the last one of the program before. Of a program's R replicas, replica r gets the
    elements r, R + r, 2 R + r, and so on.

        queue = IPUInfeedQueue(dataset)
        queue.initializer              # an op in a graph; acts at once in eager mode
        loops.repeat(100, body, infeed_queue=queue)

    Args:
        dataset: A tf.data.Dataset whose elements are dense tensors of fully defined
            shape (`batch(..., drop_remainder=True)`), each of int32, float32, float16,
            bool, int8 or uint8. The queue keeps it.
        device_ordinal: The IPU whose programs use it; others are refused. Default: that of
            the current IPUStrategy, else 0.
        prefetch_depth: The ring's capacity in elements, in [1, 255]. Default (None or 0):
            32. A device of several IPUs has a ring for each.
        optimise_latency: No effect, with a warning: the ring has no batching to turn off.

    Raises:
        ValueError: A shape is not fully defined, or an argument is out of range.
        TypeError: `dataset` is not a dataset.

    Threads: construct and use it on any; one program at a time dequeues. Concurrent
        initializers and deleters of eager mode run one after the other.

    Source: Graphcore's IPUInfeedQueue, whose interface this is.
    """

    @named_by_position(
        1,
        *("device_ordinal", "replication_factor", "data_to_prefetch", "prefetch_depth"),
    )
    @flags_checked
    def __init__(
        self,
        dataset: Any,
        device_ordinal: int | None = None,
        prefetch_depth: int | None = None,
        optimise_latency: bool = False,
        **kwargs: Any,
    ) -> None:
        internal_id = kwargs.pop("_internal_id", None)
        drop_old_arguments(
            kwargs,
            "IPUInfeedQueue",
            "feed_name",
            "replication_factor",
            "data_to_prefetch",
        )
        if not isinstance(dataset, tf.data.Dataset):
            raise TypeError(
                "Expected `dataset` argument to be of type `tf.data.Dataset`, but got "
                f"{type(dataset).__name__}. ipufeed.sources.from_loader makes a dataset of "
                "a loader of another framework."
            )
        self._specs = structure.check_spec(dataset.element_spec)
        self._flat_structure = structure.flat_structure(dataset.element_spec)
        self._structure = dataset.element_spec
        self._device_ordinal = checked_ordinal(device_ordinal)
        self._prefetch_depth = check_prefetch_depth(prefetch_depth)
        warn_of_latency("IPUInfeedQueue", optimise_latency)
        self._optimise_latency = bool(optimise_latency)
        self._dataset = dataset
        self._number = next(_numbers)
        self._id = str(self._number if internal_id is None else internal_id)
        _native.entry().ipufeed_name_infeed(self._number, self._id.encode())
        interrupt.watch()
        weakref.finalize(self, _forget, self._number).atexit = False
        self._initializer_taken = False
        self._initialized = False
        self._one_at_a_time = threading.Lock()  # eager initializers and deleters
        self._reads = True  # False once initialised with synthetic data
        self._dequeued = False

    @property
    def number_of_tuple_elements(self) -> int:
        """The number of tensors in an element."""
        return len(self._specs)

    @property
    def dequeued(self) -> bool:
        """Whether a program that dequeues from this queue has been built."""
        return self._dequeued

    @property
    def initializer(self) -> Operation | None:
        """Creates the dataset's iterator; its elements are read with the first program.

        In a graph this returns the op to run, once. In eager mode each access runs it; a
        further access restarts the dataset from its first element.

        Raises:
            ValueError: Second access in a graph; in eager mode, a function of the dataset
                uses a variable or table of an IPU.
            tf.errors.FailedPreconditionError: At the run: a dtype that feeds do not carry.
            tf.errors.InvalidArgumentError: At the run: a dimension of size 0.
            tf.errors.AlreadyExistsError: At the run: it has run and no deleter since.
        """
        if tf.executing_eagerly():
            check_resources(self._dataset)
            with self._one_at_a_time:
                if self._initialized:
                    self._delete()
                    self._initialized = False
                self._create()
                self._initialized = True
            return None
        if self._initializer_taken:
            raise ValueError(
                "The IPUInfeedQueue `initializer` function can only be accessed once: "
                "keep the operation that it gives, and run that again."
            )
        self._initializer_taken = True
        self._initialized = True
        return self._create()

    @property
    def deleter(self) -> Operation | None:
        """Stops reading and drops the ring's elements; `initializer` can then run again.

        In a graph this returns the op to run; in eager mode the access runs it.

        Raises:
            tf.errors.NotFoundError: At the run: the initializer has not run.
            tf.errors.FailedPreconditionError: At the run: a program uses the queue.
        """
        if not tf.executing_eagerly():
            return self._delete()
        with self._one_at_a_time:
            self._delete()
            self._initialized = False
        return None

    def read_ahead(self) -> None:
        """Starts to read now, before the first program dequeues.

        The ring then has elements when that program has been compiled. The dataset's
        resources must have been initialised. No effect on a queue that reads already.

        Raises:
            tf.errors.FailedPreconditionError: The initializer has not run.

        Threads: any, after the initializer.
        """
        interrupt.check_not_forked()
        if not self._reads:  # synthetic data
            return
        if _native.entry().ipufeed_infeed_begin(self._number) != 0:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"Infeed queue '{self._id}' cannot read ahead: its `initializer` has not "
                "run. Run it first.",
            )

    def _restart(self, dataset: Dataset) -> None:
        """Restarts in eager mode, with another dataset of the same structure."""
        self._dataset = dataset
        self.initializer  # noqa: B018 (the access runs it)

    def get_next(self) -> NoReturn:
        """Always raises: the loop dequeues.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "`get_next` is obsolete: the data of an IPUInfeedQueue is automatically "
            "dequeued by the loop that has it as its infeed_queue."
        )

    def __iter__(self) -> NoReturn:
        """Always raises: programs dequeue, by a loop or by an iterator of the dataset.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "An IPUInfeedQueue cannot be iterated over: its elements go to a program. Give "
            "it to `loops.repeat(..., infeed_queue=queue)`; or make `iter(dataset)` of the "
            "dataset in the scope of an IPUStrategy, and call `next` of that in a "
            "tf.function that the strategy runs."
        )

    __next__ = __iter__

    def stats(self) -> QueueStats:
        """Returns the counters of this queue; zeros before the initializer has run."""
        interrupt.check_not_forked()
        return read_stats("infeed", self._number, self._id)

    def __reduce__(self) -> NoReturn:
        raise cannot_be_pickled("IPUInfeedQueue")

    def _create(self) -> Operation:
        self._reads = device_hooks.synthetic_infeed() is None
        if not self._reads:  # synthetic data: the dataset is not read
            return tf.no_op()
        stay_with_graph(self)
        ops = _native.load()
        with plain_errors(), tf.device("/device:CPU:0"):
            threads = device_hooks.infeed_threads()
            dataset = _with_threads(self._dataset, threads)._apply_debug_options()
            return ops.ipufeed_infeed_create(
                dataset._variant_tensor,
                number=self._number,
                feed_id=self._id,
                dtypes=[spec.dtype for spec in self._specs],
                shapes=[spec.shape for spec in self._specs],
                capacity=self._prefetch_depth or DEFAULT_DEPTH,
                threads=threads,
                null_data=device_hooks.null_data_feed(),
                ordinal=self._device_ordinal,
            )

    def _delete(self) -> Operation:
        if not self._reads:
            return tf.no_op()
        stay_with_graph(self)
        with plain_errors(), tf.device("/device:CPU:0"):
            return _native.load().ipufeed_infeed_delete(number=self._number)

    def _feed_tensor(self) -> Tensor:
        return host_number(self._number, self)

    def _dequeue(self) -> Nest:
        """Builds the dequeue of the next element, in the dataset's structure."""
        check_placement(f"Infeed queue '{self._id}'", self._device_ordinal)
        self._dequeued = True
        stay_with_graph(self)
        flat = next_tensors(self._feed_tensor(), self._specs)
        if tf.executing_eagerly():
            eager_calls.end_eager_call()
        return tf.nest.pack_sequence_as(self._structure, flat)

    @property
    def _type_spec(self) -> InfeedSpec:
        from ipufeed.queues.iterators import InfeedSpec

        if not self._initialized:
            raise RuntimeError(
                "Spec for IPUInfeedQueue can only be created for already initialized "
                "queues."
            )
        return InfeedSpec(
            self._structure,
            self._device_ordinal,
            self._prefetch_depth,
            self._optimise_latency,
            self._id,
        )


def _forget(number: int) -> None:
    """Deletes the infeed of a queue that was collected.

    The garbage collector calls it, so it runs no op and does not wait for the feeder.
    """
    _native.entry().ipufeed_infeed_forget(number)


def stay_with_graph(queue: object) -> None:
    """Keeps a queue alive as long as the current graph and its outer graphs."""
    if tf.executing_eagerly():
        return
    # The outermost graph of an eager program's functions is TensorFlow's default graph,
    # which is empty and never freed.
    eager = tf.compat.v1.executing_eagerly_outside_functions()
    graph = tf.compat.v1.get_default_graph()
    while graph is not None and not (eager and not graph.building_function):
        # An attribute instead of a table here: the dataset may belong to the graph, and a
        # reference cycle through a module's table is never collected.
        queues = getattr(graph, "_ipufeed_queues", None)
        if queues is None:
            queues = graph._ipufeed_queues = set()
        queues.add(queue)
        graph = getattr(graph, "outer_graph", None)


def next_tensors(feed: Tensor, specs: list[TensorSpec]) -> list[Tensor]:
    """Builds the dequeue of a feed's next element, or its synthetic data.

    Args:
        feed: The feed's number, an int64 scalar.
        specs: The spec of each tensor of an element.
    """
    synthetic = device_hooks.synthetic_infeed()
    if synthetic is not None:
        return [synthetic(spec.dtype, spec.shape) for spec in specs]
    components, token = _native.load().ipufeed_dequeue(
        feed,
        take_token(),
        dtypes=[spec.dtype for spec in specs],
        shapes=[spec.shape for spec in specs],
    )
    put_token(token)
    return list(components)


def cannot_be_pickled(kind: str) -> TypeError:
    """Returns the error for a queue that is sent to another process."""
    return TypeError(
        f"An {kind} cannot be pickled: its ring is memory of this process. Make the queue "
        "in the process that uses it."
    )


def _with_threads(dataset: Dataset, threads: int) -> Dataset:
    """Returns the dataset with a private pool of `threads` threads; 0: unchanged."""
    if threads == 0:
        return dataset
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return dataset.with_options(options)


def warn_of_latency(kind: str, optimise_latency: bool) -> None:
    """Warns that `optimise_latency` of both queues has no effect."""
    if optimise_latency:
        no_effect(
            f"{kind}(optimise_latency=)", "its rings always deliver elements at once"
        )
