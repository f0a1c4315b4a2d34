"""The base of both estimators: graphs, sessions, checkpoints, and the three modes."""

from __future__ import annotations

import abc
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ipufeed.checks import flags_checked
from ipufeed.device.program.variables import (
    initialize_on_cpu,
    move_variable_initialization_to_cpu,
)
from ipufeed.device.system import system
from ipufeed.estimators import sessions
from ipufeed.estimators.checkpoints import found_checkpoint, step_of
from ipufeed.estimators.checks import (
    EVAL,
    PREDICT,
    TRAIN,
    as_folder,
    check_hooks,
    check_listeners,
    checked_steps,
)
from ipufeed.estimators.functions import (
    ModelFunction,
    check_batch_sizes,
    check_model_function,
    dataset_of,
    params_of,
)
from ipufeed.estimators.ipu_run_config import IPURunConfig, RunConfig
from ipufeed.estimators.loop import CPU, Loop
from ipufeed.keras.changes.graphs import own_names
from ipufeed.ops.refused import Refused
from ipufeed.tf_types import Dataset, Graph, SessionHook, Variable

_LOG = tf.compat.v1.logging


class IPUEstimatorBase(abc.ABC):
    """Trains, evaluates and predicts with a model function; see IPUEstimator.

    A subclass has `_ARGUMENTS`, what its model function can name, and `_build`.
    """

    _ARGUMENTS: tuple[str, ...]

    export_saved_model = Refused(
        "export_saved_model",
        "programs for serving are exported without an estimator; use "
        "serving.export_single_step with a predict step, and get_variable_value for the "
        "weights",
    )

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: str | None = None,
        config: RunConfig | None = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: str | None = None,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
    ) -> None:
        check_model_function(model_fn, self._ARGUMENTS)
        config = RunConfig() if config is None else config
        if not isinstance(config, RunConfig):
            raise ValueError(
                "`config` must be provided with type `ipu_run_config.RunConfig`, got "
                f"{type(config).__name__}."
            )
        if params is not None and not isinstance(params, Mapping):
            raise TypeError(f"`params` must be a dict, got {type(params).__name__}.")
        self._sizes = {
            TRAIN: train_batch_size,
            EVAL: eval_batch_size,
            PREDICT: predict_batch_size,
        }
        self._replicas = config.ipu_run_config.num_replicas
        check_batch_sizes(self._sizes, params, self._replicas)
        self._config = config.replace(model_dir=_folder(model_dir, config.model_dir))
        self._model_fn = model_fn
        self._params = dict(params or {})
        self._warm_start_from = warm_start_from

    @abc.abstractmethod
    def _build(
        self, model: ModelFunction, dataset: Dataset, global_step: Variable
    ) -> Loop:
        """Builds the loop of the model's mode in the current graph."""

    @property
    def model_dir(self) -> str:
        """The folder of the checkpoints."""
        folder: str = self._config.model_dir
        return folder

    @property
    def config(self) -> RunConfig:
        """The configuration, with the folder of the checkpoints."""
        return self._config

    @property
    def params(self) -> dict[str, Any]:
        """A copy of the parameters of the model function."""
        return dict(self._params)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The model function."""
        return self._model_fn

    def latest_checkpoint(self) -> str | None:
        """Returns the path of the latest checkpoint in `model_dir`, or None."""
        path: str | None = tf.train.latest_checkpoint(self.model_dir)
        return path

    def get_variable_names(self) -> list[str]:
        """Returns the names of the variables in the latest checkpoint.

        Raises:
            ValueError: `model_dir` has no checkpoint.
        """
        return [name for name, _ in tf.train.list_variables(self._trained())]

    def get_variable_value(self, name: str) -> np.ndarray[Any, Any]:
        """Returns the value of a variable in the latest checkpoint.

        Args:
            name: The variable's name.

        Raises:
            ValueError: `model_dir` has no checkpoint.
        """
        value: np.ndarray[Any, Any] = tf.train.load_variable(self._trained(), name)
        return value

    def _trained(self) -> str:
        path = self.latest_checkpoint()
        if path is None:
            raise ValueError(
                f"Could not find trained model in model_dir: {self.model_dir}."
            )
        return path

    @flags_checked
    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[SessionHook] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> IPUEstimatorBase:
        """Trains the model, from the latest checkpoint in `model_dir` if there is one.

        Args:
            input_fn: Returns the dataset; called with those of `mode`, `params` and
                `config` that it names. Batches have one static shape.
            hooks: A list of SessionRunHooks, in addition to the model's. Default: None.
            steps: Steps (mini-batches of each replica) of this call; a multiple of
                `iterations_per_loop`. Default: None, until the dataset ends.
            max_steps: In place of it, the global step at which training ends.
            saving_listeners: CheckpointSaverListeners. Default: None.

        Returns:
            The estimator.

        Raises:
            ValueError: Both numbers are given, or one is not a multiple; the dataset or
                the model function is not what it must be.
            tf.compat.v1.train.NanLossDuringTrainingError: The loss is NaN.

        The loss of a run, the mean of its steps and replicas, is logged each
        `log_step_count_steps` steps. If the dataset ends in a loop, training ends with the
        loop before it.
        """
        iterations = self._config.ipu_run_config.iterations_per_loop
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        steps = checked_steps("steps", steps, iterations)
        checked_steps("max_steps", max_steps, 1)
        given = check_hooks("hooks", hooks)
        listeners = check_listeners(saving_listeners)
        latest = self.latest_checkpoint()
        if max_steps is not None:
            done = step_of(latest)
            if done >= max_steps:
                _LOG.info("Skipping training since max_steps has already saved.")
                return self
            name = f"max_steps {max_steps} after step {done}: steps"
            checked_steps(name, max_steps - done, iterations)
        warm = None
        if latest is None and self._warm_start_from is not None:
            warm = found_checkpoint("warm_start_from", self._warm_start_from)
        with tf.Graph().as_default() as graph:
            loop, global_step = self._loop(graph, input_fn, TRAIN)
            if warm is not None:
                tf.compat.v1.train.warm_start(warm)
            loss = sessions.train(
                loop,
                self._config,
                sessions.Steps(global_step, steps, max_steps),
                given,
                listeners,
            )
        if loss is None:
            _LOG.warning(
                "Training with estimator made no steps. Perhaps the dataset is empty, or "
                "has fewer elements than a loop of %d.",
                iterations,
            )
        else:
            _LOG.info("Loss for final step: %s.", loss)
        return self

    @flags_checked
    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[SessionHook] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates the model of a checkpoint.

        Args:
            input_fn: See `train`.
            steps: Mini-batches of each replica; a multiple of `iterations_per_loop`.
                Default: None, until the dataset ends. If it ends in a loop, what the loop
                computed before counts.
            hooks: A list of SessionRunHooks, in addition to the model's. Default: None.
            checkpoint_path: Default: None, the latest in `model_dir`. Without one the
                variables have their initial values.
            name: The summaries are written to the folder `eval_<name>` in `model_dir`.
                Default: None, `eval`.

        Returns:
            A dict from a metric's name to its value, with "loss", the mean, and
            "global_step".

        Raises:
            ValueError: As in `train`; or the dataset has no elements.
        """
        iterations = self._config.ipu_run_config.iterations_per_loop
        steps = checked_steps("steps", steps, iterations)
        given = check_hooks("hooks", hooks)
        checkpoint = self._checkpoint(checkpoint_path, "evaluate")
        with tf.Graph().as_default() as graph:
            loop, global_step = self._loop(graph, input_fn, EVAL)
            runs = None if steps is None else steps // iterations
            results = sessions.evaluate(
                loop, self._config, global_step, checkpoint, runs, given
            )
            sessions.write_summary(
                str(Path(self.model_dir, f"eval_{name}" if name else "eval")), results
            )
        return results

    @flags_checked
    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: str | Sequence[str] | None = None,
        hooks: Sequence[SessionHook] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
        num_predictions: int | None = None,
    ) -> Iterator[Any]:
        """Yields predictions of the model of a checkpoint.

        Args:
            input_fn: See `train`.
            predict_keys: Names of predictions; only with a dict of them. Default: None,
                all.
            hooks: A list of SessionRunHooks, in addition to the model's. Default: None.
            checkpoint_path: See `evaluate`.
            yield_single_examples: Whether each sample of a batch is yielded alone.
                Default: True.
            num_predictions: How much is yielded at most. Default: None, until the dataset
                ends.

        Returns:
            An iterator of predictions, each with the structure of the model's: arrays.
            The program runs, a loop at a time, as they are taken.

        Raises:
            ValueError: As in `train`; or predictions of several names have batches of
                different sizes.
        """
        given = check_hooks("hooks", hooks)
        checked_steps("num_predictions", num_predictions, 1)
        checkpoint = self._checkpoint(checkpoint_path, "predict")
        graph = tf.Graph()
        with graph.as_default():
            loop, _ = self._loop(graph, input_fn, PREDICT)
        return sessions.predict(
            graph,
            loop,
            self._config,
            checkpoint,
            given,
            sessions.Yields(predict_keys, yield_single_examples, num_predictions),
        )

    def _checkpoint(self, path: str | None, what: str) -> str | None:
        if path is not None:
            return found_checkpoint("checkpoint_path", path)
        path = self.latest_checkpoint()
        if path is None:
            _LOG.info(
                "Could not find trained model in model_dir: %s, running initialization to "
                "%s.",
                self.model_dir,
                what,
            )
        return path

    def _loop(
        self, graph: Graph, input_fn: Callable[..., Any], mode: str
    ) -> tuple[Loop, Variable]:
        """Configures the system, and builds a mode in a graph."""
        _configure(self._config.ipu_run_config)
        params = params_of(self._params, self._sizes, mode, self._replicas)
        if self._config.tf_random_seed is not None:
            tf.compat.v1.set_random_seed(self._config.tf_random_seed)
        # A program reads the copy of the step before its loop.
        scope = tf.compat.v1.variable_scope(
            tf.compat.v1.get_variable_scope(), caching_device=CPU, use_resource=True
        )
        with scope, tf.device(CPU):
            global_step = tf.compat.v1.train.create_global_step(graph)
        dataset = dataset_of(input_fn, mode, params, self._config)
        model = ModelFunction(self._model_fn, mode, params, self._config)
        with own_names():
            loop = self._build(model, dataset, global_step)
        move_variable_initialization_to_cpu(graph)
        initialize_on_cpu(tf.compat.v1.local_variables())
        return loop, global_step


def _configure(settings: IPURunConfig) -> None:
    """Configures the system, if there are options for it.

    Raises:
        ValueError: The device has not the IPUs of the program.
    """
    if settings.ipu_options is not None:
        system.configure_ipu_system(settings.ipu_options)
    found = system.require_usable(settings.ordinal).num_ipus
    if found != settings.num_replicas * settings.num_shards:
        raise ValueError(
            f"The device {settings.ordinal} is configured with {found} IPUs, and the "
            f"program has num_replicas ({settings.num_replicas}) times num_shards "
            f"({settings.num_shards}): give IPURunConfig `ipu_options`, or these numbers."
        )


def _folder(path: object, configured: str | None) -> str:
    """Returns the folder of the checkpoints.

    Raises:
        TypeError: The path is of another type.
        ValueError: Two different ones are given.
    """
    given = as_folder(path)
    if given is not None and configured is not None and given != configured:
        raise ValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different "
            f"values. In constructor: '{given}', in `RunConfig`: '{configured}'."
        )
    folder = given if given is not None else configured
    if folder is None:
        folder = tempfile.mkdtemp()
        _LOG.warning("Using temporary folder as model directory: %s", folder)
    return folder
