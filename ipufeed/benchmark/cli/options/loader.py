"""What the command's options mean for a loader of another framework."""

from __future__ import annotations

from ipufeed.benchmark.cli.options.command import Command

# Options that need the graph of a tf.data dataset, and why.
NEED_A_DATASET = {
    "verify": "it edits the pipeline's graph",
    "what_if": "it needs the stages of the pipeline's graph",
    "cold": "it finds the files in the pipeline's graph",
    "service": "it sends the pipeline's graph to the workers",
    "trace": "it shows the native threads that read a dataset",
}


def check_loader_options(command: Command, kind: str) -> None:
    """Refuses what a loader has not.

    Args:
        command: The command.
        kind: Of the loader, such as `torch DataLoader`.

    Raises:
        ValueError: In terms of the options.
    """
    for name, why in NEED_A_DATASET.items():
        if getattr(command, name) not in (None, False, ()):
            option = "--" + name.replace("_", "-")
            raise ValueError(
                f"{option} is for tf.data pipelines ({why}), and this is a {kind}: "
                f"leave {option} out."
            )


def why_no_stages_of(kind: str) -> str:
    """For the summary."""
    return f"a {kind} does not report where its time goes"
