"""Describes a dataset: structure, cardinality, and whether it batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ipufeed.benchmark.result.sections import DatasetSection
from ipufeed.sources.loaders.kinds import Kind
from ipufeed.tf_types import Dataset, Spec

# Parts of tf.data's class names: steps whose elements are not the batches of their input.
_ENDS = ("Unbatch", "FlatMap", "Interleave", "Window", "Generator", "Scan", "GroupBy")
# Of sample_from_datasets(), choose_from_datasets() and rejection_resample().
_MIXTURE = "DirectedInterleaveDataset"


@dataclass(frozen=True)
class SampleRule:
    """The rule that gives the samples of an element.

    Attributes:
        per_element: Fixed number of samples; None for the leading dimension.
        why: The rule as text.
    """

    per_element: float | None
    why: str


def sample_rule(dataset: Dataset, items_per_element: float | None) -> SampleRule:
    """Returns the rule: the leading dimension only if the pipeline batches."""
    if items_per_element is not None:
        return SampleRule(items_per_element, "--items-per-element")
    batch = _find_batch(dataset)
    if batch is None:
        return SampleRule(
            1,
            "a sample is an element: the pipeline does not batch (--items-per-element N "
            "if each holds N)",
        )
    return SampleRule(None, f"the leading dimension: the pipeline batches ({batch})")


def _find_batch(dataset: Dataset) -> str | None:
    """Returns the class of the step that batches the elements, or None.

    If several datasets are combined, all of them must batch.
    """
    name = type(dataset).__name__.strip("_")
    if name == "DatasetV1Adapter":  # its inputs are not those of the wrapped dataset
        return _find_batch(dataset._dataset)
    if name == "GroupByWindowDataset":
        return _batch_of_function(dataset)
    if name != _MIXTURE and any(part in name for part in _ENDS):
        return None
    if "batch" in name.lower():
        return name
    found = [_find_batch(source) for source in _sources_of(dataset, name)]
    return found[0] if found and all(found) else None


def _sources_of(dataset: Dataset, name: str) -> list[Dataset]:
    """Returns the datasets whose elements a step gives.

    The selector of a mixture is none, nor are the numbers that snapshot() puts in front of
    its elements and drops again.
    """
    inputs = list(dataset._inputs())
    if name == _MIXTURE:
        return inputs[1:]
    if name == "SnapshotDataset" and type(inputs[0]).__name__ == "_ZipDataset":
        numbers, *others = inputs[0]._inputs()
        return inputs if numbers._inputs() else others
    return inputs


def _batch_of_function(dataset: Dataset) -> str | None:
    """Returns the op that batches the windows of a group_by_window, or None.

    Followed from the result of its function, which bucket_by_sequence_length() makes.
    """
    try:
        function = dataset._reduce_func.function.function_def  # type: ignore[attr-defined]
    except AttributeError:  # not TensorFlow's class
        return None
    nodes = {node.name: node for node in function.node_def}
    place = next(iter(function.ret.values()), "")
    while (node := nodes.get(place.partition(":")[0])) is not None:
        if any(part in node.op for part in _ENDS):
            return None
        if "Batch" in node.op:
            found: str = node.op
            return found
        place = node.input[0] if node.input else ""
    return None


def has_autotune(dataset: Dataset) -> bool:
    """Whether a step of the pipeline uses AUTOTUNE for its parallelism or buffer."""
    import tensorflow as tf

    try:
        # options() would warn in a graph.
        if dataset._options_attr.autotune.enabled is False:
            return False
        for step in _steps_of(dataset):
            for name in ("_num_parallel_calls", "_buffer_size"):
                value = getattr(step, name, None)
                if value is None:
                    continue
                if tf.get_static_value(tf.convert_to_tensor(value)) == tf.data.AUTOTUNE:
                    return True
    except (TypeError, ValueError, AttributeError):  # not TensorFlow's class
        pass
    return False


def has_cache(dataset: Dataset) -> bool:
    """Whether a step is a cache, so that the first pass differs from the others."""
    try:
        return any(type(step).__name__ == "CacheDataset" for step in _steps_of(dataset))
    except (TypeError, AttributeError):  # not TensorFlow's class
        return False


def _steps_of(dataset: Dataset) -> Iterator[Dataset]:
    """The Python objects of its steps, without those that its functions make."""
    steps = [dataset]
    while steps:
        step = steps.pop()
        if type(step).__name__ == "DatasetV1Adapter":
            steps.append(step._dataset)
            continue
        yield step
        steps += step._inputs()


def element_spec(spec: Spec) -> object:
    """Returns the structure of an element with a text for each tensor, for the JSON."""
    if isinstance(spec, dict):
        return {str(key): element_spec(value) for key, value in spec.items()}
    if hasattr(spec, "_asdict"):
        return element_spec(spec._asdict())
    if isinstance(spec, (list, tuple)):
        return [element_spec(value) for value in spec]
    return _spec_text(spec)


def _spec_text(spec: Spec) -> str:
    """`float32 (32, 224, 224, 3)`, with the kind in front unless the tensor is dense."""
    dtype = getattr(spec, "dtype", None)
    shape = getattr(spec, "shape", None)
    if dtype is None or shape is None:
        return repr(spec)
    kind = type(spec).__name__.removesuffix("Spec")
    if shape.rank is None:
        sizes = "unknown rank"
    else:
        known = ["?" if size is None else str(size) for size in shape.as_list()]
        sizes = ", ".join(known) + ("," if len(known) == 1 else "")
    text = f"{dtype.name} ({sizes})"
    return text if kind == "Tensor" else f"{kind} {text}"


def cardinality(dataset: Dataset) -> int | str:
    """Returns the number of elements, `infinite` or `unknown`."""
    import tensorflow as tf

    if not tf.executing_eagerly() or tf.is_symbolic_tensor(dataset._variant_tensor):
        return "unknown"
    try:
        count = int(dataset.cardinality())
    except tf.errors.OpError:  # it may have to read a file that does not exist
        return "unknown"
    if count == tf.data.INFINITE_CARDINALITY:
        return "infinite"
    return "unknown" if count == tf.data.UNKNOWN_CARDINALITY else count


def describe_dataset(
    dataset: Dataset, name: str | None, loader: Kind | None = None
) -> DatasetSection:
    """Returns the result's section on a dataset, before it has run.

    Args:
        dataset: A tf.data.Dataset.
        name: As for measure().
        loader: The kind of the loader that the dataset was made of, if it was.
    """
    section: DatasetSection = {
        "name": name or type(dataset).__name__.strip("_"),
        "element_spec": element_spec(dataset.element_spec),
        "cardinality": cardinality(dataset),
        "autotune": has_autotune(dataset),
        "cache": has_cache(dataset),
    }
    if loader is not None:
        section["loader"] = loader.name
    return section
