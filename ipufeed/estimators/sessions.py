"""The sessions of an estimator: training, evaluation and prediction with a loop."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed.device.flags.flags import use_synthetic_data_for
from ipufeed.estimators.checkpoints import check_variables
from ipufeed.estimators.hooks import KeepSessionHook, QueuesHook, StepsHook, for_loops
from ipufeed.estimators.ipu_run_config import RunConfig
from ipufeed.estimators.loop import Loop
from ipufeed.tf_types import Graph, Nest, Session, SessionHook, Variable

_LOG = tf.compat.v1.logging
_train = tf.compat.v1.train


@dataclass(frozen=True)
class Steps:
    """How long a training is.

    Attributes:
        global_step: The variable.
        steps: The number of steps, or None.
        max_steps: The last one, or None.
    """

    global_step: Variable
    steps: int | None
    max_steps: int | None


@dataclass(frozen=True)
class Yields:
    """What a prediction yields.

    Attributes:
        keys: Names of predictions, a name, or None for all.
        single: Whether samples, and not batches.
        most: How many, or None.
    """

    keys: str | Sequence[str] | None
    single: bool
    most: int | None


def train(
    loop: Loop,
    config: RunConfig,
    length: Steps,
    hooks: Sequence[SessionHook],
    listeners: Sequence[Any] | None,
) -> float | None:
    """Runs the loop until the last step, or the end of the dataset.

    Returns:
        The loss of the last run; None without one.
    """
    iterations = config.ipu_run_config.iterations_per_loop
    step = length.global_step
    every = config.log_step_count_steps
    steps = StepsHook(step, iterations, length.steps, length.max_steps)
    scaffold = _scaffold(loop, config, tf.train.latest_checkpoint(config.model_dir))
    all_hooks = [
        QueuesHook(loop.infeed, loop.outfeeds),
        _train.NanTensorHook(loop.loss),
        steps,
        *hooks,
        *loop.spec.training_hooks,
        *getattr(loop.spec, "training_chief_hooks", ()),
        *_savers(config, scaffold, listeners),
    ]
    if every:
        logged = {"loss": loop.loss, "step": step}
        runs = max(1, every // iterations)
        all_hooks += [
            _train.LoggingTensorHook(logged, every_n_iter=runs),
            _train.StepCounterHook(
                every_n_steps=max(every, iterations), output_dir=config.model_dir
            ),
        ]
    creator = _train.ChiefSessionCreator(
        scaffold=scaffold,
        config=config.session_config,
        checkpoint_dir=config.model_dir,
    )
    loss = None
    all_hooks = [for_loops(each, iterations) for each in all_hooks]
    with _train.MonitoredSession(creator, all_hooks) as session:
        while not session.should_stop():
            _, loss = session.run([loop.run, loop.loss])
    return None if loss is None else float(loss)


def _savers(
    config: RunConfig, scaffold: Any, listeners: Sequence[Any] | None
) -> Iterator[Any]:
    """Yields the hooks that write checkpoints and summaries."""
    if config.save_checkpoints_secs or config.save_checkpoints_steps:
        yield _train.CheckpointSaverHook(
            config.model_dir,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=scaffold,
            listeners=listeners,
        )
    elif listeners:
        raise ValueError(
            "There should be a CheckpointSaverHook to use saving_listeners. Set one of "
            "save_checkpoints_steps and save_checkpoints_secs of RunConfig."
        )
    if config.save_summary_steps:
        yield _train.SummarySaverHook(
            scaffold=scaffold,
            save_steps=config.save_summary_steps,
            output_dir=config.model_dir,
        )


def evaluate(
    loop: Loop,
    config: RunConfig,
    global_step: Variable,
    checkpoint: str | None,
    runs: int | None,
    hooks: Sequence[SessionHook],
) -> dict[str, Any]:
    """Runs the loop a number of times, or until the end of the dataset.

    Returns:
        The metrics, the mean loss and the global step.

    Raises:
        ValueError: No step has run.
    """
    assert loop.metrics is not None
    losses: list[Any] = []
    steps = 0
    kept = KeepSessionHook()
    own = [QueuesHook(loop.infeed, loop.outfeeds), kept]
    with _train.MonitoredSession(
        _creator(loop, config, checkpoint),
        [*own, *hooks, *loop.spec.evaluation_hooks],
    ) as session:
        for results in _results(loop, session, kept, runs):
            loop.metrics.add(kept.session, results["metrics"])
            steps += len(tf.nest.flatten(results)[0])
            if "loss" in results:
                losses.append(np.reshape(results["loss"], -1))
        values = loop.metrics.values(kept.session) if steps else {}
        step = kept.session.run(global_step)
    if not steps:
        raise ValueError(
            "Evaluation has no step: the dataset of input_fn has no elements (for a "
            "pipeline, fewer than those of an execution), or a hook stopped before the "
            "first run."
        )
    if losses:
        values["loss"] = np.mean(np.concatenate(losses), dtype=np.float64).astype(
            np.float32
        )
    return {**values, "global_step": step}


def write_summary(folder: str, results: dict[str, Any]) -> None:
    """Writes the scalars of an evaluation to a folder, for TensorBoard, and logs them."""
    step = int(results["global_step"])
    line = ", ".join(f"{name} = {value}" for name, value in sorted(results.items()))
    _LOG.info("Saving dict for global step %d: %s", step, line)
    summary = tf.compat.v1.Summary()
    for name, value in results.items():
        if name != "global_step" and np.ndim(value) == 0:
            summary.value.add(tag=name, simple_value=float(value))
    with tf.compat.v1.summary.FileWriter(folder) as writer:
        writer.add_summary(summary, step)


def predict(
    graph: Graph,
    loop: Loop,
    config: RunConfig,
    checkpoint: str | None,
    hooks: Sequence[SessionHook],
    yields: Yields,
) -> Iterator[Any]:
    """Runs the loop as predictions are taken, until the end of the dataset.

    Raises:
        ValueError: There are no predictions of these names.
    """
    keys = _keys(loop.results, yields.keys)
    kept = KeepSessionHook()

    def take() -> Generator[Any]:
        # Not the graph's context: the caller's code runs between two of these.
        with graph.as_default():
            own = [QueuesHook(loop.infeed, loop.outfeeds), kept]
            monitored = _train.MonitoredSession(
                _creator(loop, config, checkpoint),
                [*own, *hooks, *loop.spec.prediction_hooks],
            )
        # The last one ends the session, and so calls `end` of the hooks.
        with monitored as session:
            yield from itertools.islice(each(session), yields.most)

    def each(session: Session) -> Iterator[Any]:
        for results in _results(loop, session, kept, None):
            if keys is not None:
                results = {key: results[key] for key in keys}
            replicated = config.ipu_run_config.num_replicas > 1
            for batch in _batches(results, replicated):
                yield from _samples(batch) if yields.single else [batch]

    return take()


def _keys(structure: Nest, keys: str | Sequence[str] | None) -> list[str] | None:
    if keys is None:
        return None
    if not isinstance(structure, dict):
        raise ValueError(
            "predict_keys argument is not valid in case of non-dict predictions."
        )
    names = [keys] if isinstance(keys, str) else list(keys)
    found = [name for name in structure if name in names]
    if not found:
        raise ValueError(
            f"Expected to run at least one output from {list(structure)}, provided "
            f"{names}."
        )
    return found


def _results(
    loop: Loop, session: Session, kept: KeepSessionHook, most: int | None
) -> Iterator[Nest]:
    """Yields the results of each run; also of one in which the dataset ends.

    Raises:
        ValueError: Before the first run: the outfeeds are synthetic, and have no results.
    """
    if use_synthetic_data_for("outfeed"):
        raise ValueError(
            "There are no results to evaluate or predict: TF_POPLAR_FLAGS makes the "
            "outfeeds synthetic. Give --synthetic_data_categories=infeed in place of "
            "--use_synthetic_data."
        )
    for _ in itertools.count() if most is None else range(most):
        if session.should_stop():
            return
        try:
            session.run(loop.run)
        except tf.errors.OutOfRangeError:
            yield tf.nest.map_structure(
                lambda each: each[: len(each) - len(each) % loop.whole],
                kept.session.run(loop.results),
            )
            return
        yield kept.session.run(loop.results)


def _batches(results: Nest, replicated: bool) -> Iterator[Nest]:
    """Yields the results of each step, and of each replica."""
    if replicated:
        results = tf.nest.map_structure(
            lambda each: np.reshape(each, (-1, *each.shape[2:])), results
        )
    for step in range(len(tf.nest.flatten(results)[0])):
        yield tf.nest.map_structure(lambda each: each[step], results)  # noqa: B023


def _samples(batch: Nest) -> Iterator[Nest]:
    """Yields the samples of a batch.

    Raises:
        ValueError: Parts have different numbers of samples.
    """
    sizes = {np.shape(each)[:1] for each in tf.nest.flatten(batch)}
    if len(sizes) != 1 or sizes == {()}:
        raise ValueError(
            "Batch length of predictions should be same. They have the shapes "
            f"{[np.shape(each) for each in tf.nest.flatten(batch)]}: give "
            "yield_single_examples=False."
        )
    ((size,),) = sizes
    for sample in range(size):
        yield tf.nest.map_structure(lambda each: each[sample], batch)  # noqa: B023


def _scaffold(loop: Loop, config: RunConfig, checkpoint: str | None) -> Any:
    """Returns the model's scaffold, or one with the saver of the configuration.

    Raises:
        ValueError: That saver reads the checkpoint, which is of another model.
    """
    scaffold = getattr(loop.spec, "scaffold", None) or _train.Scaffold()
    savers = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SAVERS)
    if not (scaffold.saver or savers):
        if checkpoint is not None:
            check_variables(checkpoint)
        saver = _train.Saver(
            sharded=True,
            max_to_keep=config.keep_checkpoint_max,
            keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
            defer_build=True,
            save_relative_paths=True,
        )
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVERS, saver)
    return scaffold


def _creator(loop: Loop, config: RunConfig, checkpoint: str | None) -> Any:
    """Returns what creates a session with the variables of a checkpoint, or initial."""
    return _train.ChiefSessionCreator(
        scaffold=_scaffold(loop, config, checkpoint),
        config=config.session_config,
        checkpoint_filename_with_path=checkpoint,
    )
