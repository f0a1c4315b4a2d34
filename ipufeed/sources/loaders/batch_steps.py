"""The step of a loader that makes its batches, and the size of these.

    grain          the last step whose class has Batch in its name
    torchdata      the last Batcher that no Unbatcher follows

Steps are found through the attributes in which each keeps its input; one that is not
known to have any ends the search.
"""

from __future__ import annotations

from typing import Any

# Any: the classes of frameworks that may not be installed.
Step = Any

# Parts of names of Grain's steps whose elements are not the batches of their input.
GRAIN_ENDS = ("FlatMap", "Pack", "ConcatThenSplit")


def has_class(source: object, package: str, name: str) -> bool:
    """Whether one of its classes has that name, in that package or one below it.

    Also of those that it shows to isinstance(), as a loader that wraps another one does.
    """
    shown = source.__class__
    kinds = type(source).__mro__ + (shown.__mro__ if isinstance(shown, type) else ())
    return any(
        kind.__name__ == name
        and (kind.__module__ == package or kind.__module__.startswith(package + "."))
        for kind in kinds
    )


def grain_batch(step: Step) -> object | None:
    """Returns the last step that batches the elements, or None.

    If several datasets are combined, all of them must batch.
    """
    name = type(step).__name__
    if "Batch" in name:
        found: object = step
        return found
    if any(part in name for part in GRAIN_ENDS):
        return None
    inputs: list[Step] = []
    for key in ("_parents", "_datasets", "_operations"):  # of a DataLoader the last
        several = getattr(step, key, None)
        if isinstance(several, (list, tuple)):
            inputs += several
    if has_class(step, "grain", "DataLoader"):
        return next(filter(None, map(grain_batch, reversed(inputs))), None)
    batches = [grain_batch(each) for each in inputs]
    return batches[0] if batches and all(batches) else None


def size_of(batch: object) -> int | None:
    """Returns the size of the batches that an object makes; None if not known."""
    for name in ("_batch_size", "batch_size"):
        size = getattr(batch, name, None)
        if isinstance(size, int):
            return size
    return None


def nodes_batch(node: Step) -> object | None:
    """Returns the last node of torchdata that batches the elements, or None."""
    while node is not None:
        name = type(node).__name__
        if name == "Batcher":
            found: object = node
            return found
        if name == "Unbatcher":
            return None
        if getattr(node, "prebatch", None) is not None:
            node = node.source  # the Batcher whose batches this mapper undoes
        node = getattr(node, "source", None)
    return None
