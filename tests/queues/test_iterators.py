"""What an iterator on the IPU promises: next() in a function, and a type of its own."""

import gc

import pytest
import tensorflow as tf

from ipufeed.device.program.strategy import IPUStrategy
from ipufeed.queues import (
    IPUInfeedQueue,
    IPUIterator,
    IPUOutfeedQueue,
    IPUOwnedIterator,
)
from ipufeed.queues.stats import read_stats


def numbers(first=0):
    return tf.data.Dataset.range(first, 1000).map(lambda n: tf.cast(n, tf.float32))


@pytest.fixture
def strategy():
    strategy = IPUStrategy()
    with strategy.scope():
        yield strategy


def taking(count):
    """A function that gives the next elements of an iterator, as many as that."""

    @tf.function(jit_compile=True)
    def take(iterator):
        taken = tf.zeros([count])
        for i in tf.range(count):
            element = next(iterator)
            taken = tf.tensor_scatter_nd_update(taken, [[i]], [element])
        return taken

    return take


@pytest.mark.parametrize("kind", [IPUIterator, IPUOwnedIterator])
def test_next_gives_the_elements_in_a_function(strategy, kind):
    """In order, over several runs."""
    iterator, take = kind(dataset=numbers()), taking(3)

    assert strategy.run(take, [iterator]).numpy().tolist() == [0.0, 1.0, 2.0]
    assert strategy.run(take, [iterator]).numpy().tolist() == [3.0, 4.0, 5.0]


def test_get_next_is_next(strategy):
    """The name of older programs."""
    take = tf.function(lambda iterator: iterator.get_next(), jit_compile=True)

    assert float(strategy.run(take, [iter(numbers(7))])) == 7.0


def test_an_iterator_can_be_captured(strategy):
    """A function that closes over it, instead of taking it as an argument."""
    iterator = iter(numbers())
    take = tf.function(lambda: next(iterator), jit_compile=True)

    assert [float(strategy.run(take)) for _ in range(3)] == [0.0, 1.0, 2.0]


def test_another_iterator_of_the_same_type_runs_the_same_program(strategy):
    """The function is traced once, and each iterator gives its own elements."""
    traces = []

    @tf.function(jit_compile=True)
    def take(iterator):
        traces.append(1)
        return next(iterator)

    first, second = iter(numbers()), iter(numbers(500))
    taken = [float(strategy.run(take, [each])) for each in (first, second, first)]

    assert taken == [0.0, 500.0, 1.0]
    assert len(traces) == 1


def test_two_iterators_can_be_arguments_at_once(strategy):
    """Each at its own pace; as keyword arguments, too."""

    @tf.function(jit_compile=True)
    def take(one, other):
        return next(one) + next(other) + next(other)

    result = strategy.run(take, [iter(numbers(10))], {"other": iter(numbers(100))})

    assert float(result) == 10.0 + 100.0 + 101.0


def test_an_element_keeps_its_structure(strategy):
    """Dicts, tuples, and both of them nested."""
    dataset = numbers().map(lambda n: ({"a": n, "b": (n + 1, n + 2)}, n))

    @tf.function(jit_compile=True)
    def take(iterator):
        return next(iterator)

    first, second = strategy.run(take, [iter(dataset)])

    assert tf.nest.map_structure(float, first) == {"a": 0.0, "b": (1.0, 2.0)}
    assert float(second) == 0.0
    assert iter(dataset).element_spec == dataset.element_spec


def test_arguments_go_on_to_the_queue(strategy):
    """`prefetch_depth` and the like."""
    iterator = IPUIterator(dataset=numbers(), prefetch_depth=7)

    assert iterator._infeed_queue._prefetch_depth == 7
    with pytest.raises(ValueError, match="must be less than 256"):
        IPUIterator(dataset=numbers(), prefetch_depth=256)


@pytest.mark.parametrize("ask", [next, lambda iterator: iterator.get_next()])
def test_next_in_eager_mode_is_refused(strategy, ask):
    """The element is on the device; the message says where to ask for it."""
    with pytest.raises(
        RuntimeError, match="can not be accessed in eager mode when insid"
    ):
        ask(iter(numbers()))


def test_what_an_ipu_cannot_do_is_refused(strategy):
    """An optional next element, a loop to the dataset's end, and checkpoints."""
    iterator = iter(numbers())

    @tf.function(jit_compile=True)
    def total(elements):
        result = 0.0
        for element in elements:
            result += element
        return result

    with pytest.raises(NotImplementedError, match=r"for _ in tf.range\(n\)"):
        strategy.run(total, [iterator])

    with pytest.raises(NotImplementedError, match="get_next_as_optional"):
        iterator.get_next_as_optional()
    with pytest.raises(NotImplementedError, match="cannot be checkpointed"):
        iterator._gather_saveables_for_checkpoint()


@pytest.mark.parametrize(
    "read",
    [
        lambda dataset: dataset.reduce(0.0, tf.add),
        lambda dataset: next(iter(dataset)),
    ],
    ids=["reduce", "iter"],
)
def test_a_dataset_read_by_a_program_names_what_reads_it(strategy, read):
    """XLA has no dataset's operations."""
    program = tf.function(lambda: read(numbers()), jit_compile=True)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"(?s)unsupported operations.*The host reads a dataset: pass `iter\(dataset",
    ):
        strategy.run(program)


@pytest.mark.parametrize(
    "arguments", [{}, {"infeed_spec": "spec"}, {"element_spec": "spec"}], ids=str
)
def test_an_iterator_needs_a_dataset_or_a_type(arguments):
    """Both parts of the type."""
    with pytest.raises(ValueError, match="Either `dataset` or both `infeed_spec` and"):
        IPUIterator(**arguments)


def test_an_iterator_has_a_dataset_or_a_type_but_not_both():
    """Either would be ignored."""
    with pytest.raises(ValueError, match="When `dataset` is provided"):
        IPUIterator(dataset=numbers(), element_spec=tf.TensorSpec([], tf.float32))


def test_a_queue_inside_a_function_cannot_be_initialized_or_deleted(strategy):
    """It stands for the one that was passed in."""
    seen = []

    @tf.function
    def look(iterator):
        queue = iterator._infeed_queue
        for ask in (lambda: queue.initializer, lambda: queue.deleter):
            with pytest.raises(RuntimeError, match="created from spec") as caught:
                ask()
            seen.append(str(caught.value))

    look(iter(numbers()))

    assert len(seen) == 2


def test_a_queue_has_a_type_once_it_is_initialized():
    """Two queues of the same structure and depth have the same."""
    one, other = (IPUInfeedQueue(numbers(n), prefetch_depth=4) for n in (0, 5))
    with pytest.raises(RuntimeError, match="only be created for already initialized"):
        _ = one._type_spec
    _, _ = one.initializer, other.initializer

    assert one._type_spec == other._type_spec
    assert one._type_spec.element_spec == tf.TensorSpec([], tf.float32)


def test_an_iterator_takes_its_queue_with_it(strategy):
    """A program that forgets an owned iterator leaves no feed behind."""
    iterator = iter(numbers().repeat())
    number = iterator._infeed_queue._number
    strategy.run(taking(2), [iterator])
    assert read_stats("infeed", number, "").capacity > 0
    del iterator
    gc.collect()

    assert read_stats("infeed", number, "").capacity == 0


def test_results_and_elements_meet_in_one_function(strategy):
    """An iterator in, an outfeed out, a loop of the user's own between."""
    outfeed = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def double(iterator):
        i = tf.constant(0)
        while i < 5:
            outfeed.enqueue({"double": next(iterator) * 2})
            i += 1

    strategy.run(double, [iter(numbers())])

    assert outfeed.dequeue()["double"].numpy().tolist() == [0, 2, 4, 6, 8]
