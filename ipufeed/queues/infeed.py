"""IPUInfeedQueue: a dataset that programs on an IPU read from."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from ipufeed import _native
from ipufeed.checks import flags_checked, is_int
from ipufeed.no_effect import no_effect
from ipufeed.queues import interrupt, structure
from ipufeed.queues.chain import host_number, put_token, take_token
from ipufeed.queues.hooks import device_ordinal, surroundings
from ipufeed.queues.placement import check_placement
from ipufeed.queues.stats import QueueStats, read_stats
from ipufeed.tf_types import Dataset

DEFAULT_DEPTH = 32
MOST_DEPTH = 255

_numbers = itertools.count()


class IPUInfeedQueue:
    """Feeds a dataset's elements to the programs of one IPU.

    A thread of the queue's own reads the dataset, as `iter(dataset)` would, into a
    lock-free ring; the program takes one element for each `_dequeue` it runs. The ring
    lives from the initializer to the deleter: programs that run one after the other go
    on where the one before has stopped, and nothing is lost or repeated. Of R replicas of a
    program, number r gets the elements r, R + r, 2 R + r, and so on.

        queue = IPUInfeedQueue(dataset)
        queue.initializer              # an op in a graph; acts at once in eager mode
        loops.repeat(100, body, infeed_queue=queue)

    Args:
        dataset: A tf.data.Dataset whose elements are dense tensors of fully defined
            shape (`batch(..., drop_remainder=True)`), each of int32, float32, float16,
            bool, int8 or uint8. It belongs to the queue from now on.
        device_ordinal: The IPU whose programs use it; others are refused. Default: that of
            the current IPUStrategy, else 0.
        prefetch_depth: How many elements the ring holds at most, in [1, 255]. Default
            (None or 0): 32. A device of several IPUs has a ring for each.
        optimise_latency: No effect, with a warning: the ring always hands over at once.

    Raises:
        ValueError: A shape is not fully defined, or an argument is out of range.
        TypeError: `dataset` is not a dataset.

    Threads: make it and use it on any; one program at a time takes from it.

    Source: Graphcore's IPUInfeedQueue, whose interface this is.
    """

    @flags_checked
    def __init__(
        self,
        dataset: Any,
        device_ordinal: int | None = None,
        prefetch_depth: int | None = None,
        optimise_latency: bool = False,
        **kwargs: Any,
    ) -> None:
        import tensorflow as tf

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
                f"{type(dataset).__name__}."
            )
        self._flat_structure = structure.check_spec(dataset.element_spec)
        self._structure = dataset.element_spec
        self._device_ordinal = check_device(device_ordinal)
        self._prefetch_depth = check_depth(prefetch_depth)
        warn_of_latency("IPUInfeedQueue", optimise_latency)
        self._optimise_latency = bool(optimise_latency)
        self._dataset = dataset
        self._number = next(_numbers)
        self._id = str(self._number if internal_id is None else internal_id)
        _native.entry().ipufeed_name_infeed(self._number, self._id.encode())
        interrupt.watch()
        weakref.finalize(self, forget, self._number).atexit = False
        self._feed: Any = None
        self._initializer_taken = False
        self._initialized = False
        self._reads = True  # unless it is initialised while the data are synthetic
        self._dequeued = False

    @property
    def number_of_tuple_elements(self) -> int:
        """Tensors in an element."""
        return len(self._flat_structure)

    @property
    def dequeued(self) -> bool:
        """Whether a program has been built that takes from this queue."""
        return self._dequeued

    @property
    def initializer(self) -> Any:
        """Makes the dataset's iterator and starts to read ahead.

        In a graph an op to run, which can be had once; in eager mode it acts when it is
        read, and again each time: the dataset then starts from its beginning.

        Raises:
            ValueError: It is read a second time, in a graph.
            tf.errors.FailedPreconditionError: When it runs: a dtype that feeds do not
                carry.
            tf.errors.InvalidArgumentError: When it runs: a dimension of size 0.
            tf.errors.AlreadyExistsError: When it runs: it has run and no deleter since.
        """
        import tensorflow as tf

        if tf.executing_eagerly():
            if self._initialized:
                self._delete()
            self._create()
            self._initialized = True
            return None
        if self._initializer_taken:
            raise ValueError(
                "The IPUInfeedQueue `initializer` function can only be accessed once."
            )
        self._initializer_taken = True
        self._initialized = True
        return self._create()

    @property
    def deleter(self) -> Any:
        """Stops reading and forgets what was read ahead; then `initializer` starts again.

        In a graph an op to run; in eager mode it acts when it is read.

        Raises:
            tf.errors.NotFoundError: When it runs: the initializer has not.
            tf.errors.FailedPreconditionError: When it runs: a program uses the queue.
        """
        import tensorflow as tf

        op = self._delete()
        if tf.executing_eagerly():
            self._initialized = False
            return None
        return op

    def _restart(self, dataset: Dataset) -> None:
        """Starts again in eager mode, with another dataset of the same structure."""
        self._dataset = dataset
        self.initializer  # noqa: B018 (acts when it is read)

    def get_next(self) -> Any:
        """Always raises: a loop dequeues by itself.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "`get_next` is obsolete: the data of an IPUInfeedQueue is automatically "
            "dequeued by the loop that has it as its infeed_queue."
        )

    def stats(self) -> QueueStats:
        """Counts and times of this queue so far; zeros before the initializer has run."""
        interrupt.check_not_forked()
        return read_stats("infeed", self._number, self._id)

    def __reduce__(self) -> Any:
        raise cannot_be_pickled("IPUInfeedQueue")

    def _create(self) -> Any:
        import tensorflow as tf

        self._reads = surroundings.synthetic_infeed() is None
        if not self._reads:  # programs make the data; the dataset is not read
            return tf.no_op()
        stay_with_graph(self)
        ops = _native.load()
        depth = self._prefetch_depth or DEFAULT_DEPTH
        with tf.device("/device:CPU:0"):
            threads = surroundings.infeed_threads()
            dataset = with_threads(self._dataset, threads)._apply_debug_options()
            return ops.ipufeed_infeed_create(
                dataset._variant_tensor,
                number=self._number,
                feed_id=self._id,
                dtypes=[spec.dtype for spec in self._flat_structure],
                shapes=[spec.shape for spec in self._flat_structure],
                capacity=depth,
                threads=threads,
                null_data=surroundings.null_data_feed(),
                ordinal=self._device_ordinal,
            )

    def _delete(self) -> Any:
        import tensorflow as tf

        if not self._reads:
            return tf.no_op()
        stay_with_graph(self)
        with tf.device("/device:CPU:0"):
            return _native.load().ipufeed_infeed_delete(number=self._number)

    def _feed_tensor(self) -> Any:
        return host_number(self._number, self)

    def _dequeue(self) -> Any:
        """The next element, in the dataset's structure; used by loops and iterators."""
        import tensorflow as tf

        check_placement(f"Infeed queue '{self._id}'", self._device_ordinal)
        self._dequeued = True
        stay_with_graph(self)
        flat = next_tensors(self._feed_tensor(), self._flat_structure)
        if tf.executing_eagerly():
            interrupt.end_eager_call()
        return tf.nest.pack_sequence_as(self._structure, flat)

    @property
    def _type_spec(self) -> Any:
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
        )


def forget(number: int) -> None:
    """Deletes an infeed that is no longer referred to.

    From a garbage collection, so it runs no op, and does not wait for the feeder's end.
    """
    _native.entry().ipufeed_infeed_forget(number)


def stay_with_graph(queue: Any) -> None:
    """Lets a queue live as long as a graph that uses it, and those around it."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return
    # Around the functions of an eager program there is TensorFlow's default graph, which
    # is empty and lives for ever.
    eager = tf.compat.v1.executing_eagerly_outside_functions()
    graph = tf.compat.v1.get_default_graph()
    while graph is not None and not (eager and not graph.building_function):
        # An attribute, and no table of ours: the dataset may belong to the graph, and a
        # cycle through a table is never collected.
        queues = getattr(graph, "_ipufeed_queues", None)
        if queues is None:
            queues = graph._ipufeed_queues = set()
        queues.add(queue)
        graph = getattr(graph, "outer_graph", None)


def next_tensors(feed: Any, specs: list[Any]) -> list[Any]:
    """Builds what gives the next element of the feed with this number, or synthetic data.

    Args:
        feed: The number, an int64 scalar.
        specs: A tf.TensorSpec for each tensor of an element.
    """
    synthetic = surroundings.synthetic_infeed()
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
    """The error for a queue that is sent to another process."""
    return TypeError(
        f"An {kind} cannot be pickled: its ring is memory of this process. Make the queue "
        "in the process that uses it."
    )


def with_threads(dataset: Dataset, threads: int) -> Any:
    """The dataset, whose own parallel work runs on `threads` threads; 0: as it is."""
    import tensorflow as tf

    if threads == 0:
        return dataset
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return dataset.with_options(options)


def check_device(ordinal: int | None) -> int:
    """See surroundings.device_ordinal; named so that the argument may be called that."""
    return device_ordinal(ordinal)


def check_depth(depth: int | None) -> int | None:
    """None for the default, which 0 means as well.

    Raises:
        ValueError: It is not an integer in [1, 255].
    """
    if depth is None:
        return None
    if not is_int(depth):
        raise ValueError(
            f"prefetch_depth must be an integer, but it is {depth!r} of type "
            f"{type(depth).__name__}"
        )
    if depth < 0:
        raise ValueError(f"prefetch_depth must be greater than zero, but it is {depth}")
    if depth > MOST_DEPTH:
        raise ValueError(f"prefetch_depth must be less than 256, but it is {depth}")
    return int(depth) or None


def drop_old_arguments(kwargs: dict[str, Any], kind: str, *names: str) -> None:
    """Accepts, with a warning, the arguments of older releases.

    Raises:
        TypeError: Another argument, as Python does.
    """
    for name in kwargs:
        if name not in names:
            raise TypeError(f"{kind}() got an unexpected keyword argument '{name}'")
    for name in kwargs:
        no_effect(f"{kind}({name}=)", OLD_ARGUMENTS[name])


# Arguments of older releases, and why nothing is left for them to do.
OLD_ARGUMENTS = {
    "feed_name": "queues have numbers, which do not clash",
    "replication_factor": "a program's replicas are as many as its device has IPUs for",
    "data_to_prefetch": "`prefetch_depth` has taken its place",
    "io_batch_size": "results are moved as they come",
}


def warn_of_latency(kind: str, optimise_latency: bool) -> None:
    """Warns of the argument of both queues that changes nothing."""
    if optimise_latency:
        no_effect(
            f"{kind}(optimise_latency=)", "its rings always hand elements over at once"
        )
