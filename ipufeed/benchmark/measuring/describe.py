"""A dataset's description: structure, cardinality, and whether it batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ipufeed.benchmark.loaders.kinds import Kind
from ipufeed.benchmark.result.sections import DatasetSection
from ipufeed.tf_types import Dataset

# Of tf.data's own classes, those after which an element is something else than what was
# batched before.
_ENDS = ("Unbatch", "FlatMap", "Interleave", "Window", "Generator", "Scan", "GroupBy")


@dataclass(frozen=True)
class SampleRule:
    """How many samples an element holds, and how that is known.

    Attributes:
        per_element: Fixed number of samples, or None: the leading dimension.
        why: The rule in words.
    """

    per_element: float | None
    why: str


def sample_rule(dataset: Dataset, items_per_element: float | None) -> SampleRule:
    """Samples are elements times the leading dimension only where the pipeline batches."""
    if items_per_element is not None:
        return SampleRule(items_per_element, "--items-per-element")
    batch = find_batch(dataset)
    if batch is None:
        return SampleRule(
            1,
            "a sample is an element: the pipeline does not batch (--items-per-element N "
            "if each holds N)",
        )
    return SampleRule(None, f"the leading dimension: the pipeline batches ({batch})")


def find_batch(dataset: Dataset) -> str | None:
    """The class of the batching step that shapes the elements, or None.

    Where several datasets come together, all of them must batch.
    """
    name = type(dataset).__name__.strip("_")
    if name == "DatasetV1Adapter":  # its inputs are not those of what it wraps
        return find_batch(dataset._dataset)
    if any(part in name for part in _ENDS):
        return None
    if "batch" in name.lower():
        return name
    found = [find_batch(source) for source in dataset._inputs()]
    return found[0] if found and all(found) else None


def has_autotune(dataset: Dataset) -> bool:
    """Whether a step of the pipeline leaves its parallelism or its buffer to AUTOTUNE."""
    import tensorflow as tf

    try:
        # Not options(), which warns in a graph.
        if dataset._options_attr.autotune.enabled is False:
            return False
        for step in steps_of(dataset):
            for name in ("_num_parallel_calls", "_buffer_size"):
                value = getattr(step, name, None)
                if value is None:
                    continue
                if tf.get_static_value(tf.convert_to_tensor(value)) == tf.data.AUTOTUNE:
                    return True
    except (TypeError, ValueError, AttributeError):  # not TensorFlow's class
        return False
    return False


def has_cache(dataset: Dataset) -> bool:
    """Whether a step keeps its elements, so that the first pass is not like the others."""
    try:
        return any(type(step).__name__ == "CacheDataset" for step in steps_of(dataset))
    except (TypeError, AttributeError):  # not TensorFlow's class
        return False


def steps_of(dataset: Dataset) -> Iterator[Any]:
    """The Python objects of its steps; what functions inside it make is not seen."""
    steps = [dataset]
    while steps:
        step = steps.pop()
        if type(step).__name__ == "DatasetV1Adapter":
            steps.append(step._dataset)
            continue
        yield step
        steps += step._inputs()


def element_spec(spec: Any) -> Any:
    """The structure of an element with a short text for each tensor, ready for JSON."""
    if isinstance(spec, dict):
        return {str(key): element_spec(value) for key, value in spec.items()}
    if hasattr(spec, "_asdict"):
        return element_spec(spec._asdict())
    if isinstance(spec, (list, tuple)):
        return [element_spec(value) for value in spec]
    return spec_text(spec)


def components(spec: Any) -> int:
    """Tensors that an element consists of."""
    import tensorflow as tf

    return len(tf.nest.flatten(spec))


def spec_text(spec: Any) -> str:
    """`float32 (32, 224, 224, 3)`, with the kind in front unless it is a dense tensor."""
    dtype = getattr(spec, "dtype", None)
    shape = getattr(spec, "shape", None)
    if dtype is None or shape is None:
        return repr(spec)
    kind = type(spec).__name__.removesuffix("Spec")
    text = f"{dtype.name} {shape_text(shape)}"
    return text if kind == "Tensor" else f"{kind} {text}"


def shape_text(shape: Any) -> str:
    """A shape as Python writes a tuple; `?` for what is not known."""
    if shape.rank is None:
        return "(unknown rank)"
    sizes = ["?" if size is None else str(size) for size in shape.as_list()]
    return "(" + ", ".join(sizes) + ("," if len(sizes) == 1 else "") + ")"


def cardinality(dataset: Dataset) -> int | str:
    """Number of elements, `infinite` or `unknown`."""
    import tensorflow as tf

    if not tf.executing_eagerly() or tf.is_symbolic_tensor(dataset._variant_tensor):
        return "unknown"
    try:
        count = int(dataset.cardinality())
    except tf.errors.OpError:  # it may have to read a file that is not there
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
        loader: Of which kind the loader is that it was made of, if it was.
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
