"""serving: SavedModels that another process loads after `import ipufeed`.

step --export_single_step--> SavedModel --tf.saved_model.load--> the same numbers
"""

import json
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers import run_python

from ipufeed.applications.exporting import export_pipeline, export_single_step
from ipufeed.device.config.config import IPUConfig
from ipufeed.parallel.pipeline.schedules import PipelineSchedule
from ipufeed.process_state import STATE
from ipufeed.queues import set_stall_report

pytestmark = [pytest.mark.usefixtures("clean_system", "engines_end"), pytest.mark.long]
X = [tf.TensorSpec([2, 3], tf.float32)]
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3)


def two(x, y):
    return x + y


def identity(x):
    return x


@pytest.fixture
def engines_end():
    yield
    STATE.reset("engines", "provided")


def configure(ipus=1):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def in_another_process(folder, ipus=1):
    """What a model gives for VALUE there, as lists, and how often it was compiled."""
    code = f"""
import json, numpy as np, ipufeed as ipu, tensorflow as tf
config = ipu.IPUConfig(); config.auto_select_ipus = {ipus}
config.configure_ipu_system()
model = tf.saved_model.load({str(folder)!r})
x = np.arange(6, dtype=np.float32).reshape(2, 3)
given = model.signatures["serving_default"](x=tf.constant(x))
print(json.dumps({{name: value.numpy().tolist() for name, value in given.items()}}))
print(ipu.executable.stats().compiles)
"""
    process = run_python(code)
    lines = process.stdout.splitlines()
    assert len(lines) == 2, process.stderr
    return json.loads(lines[0]), int(lines[1])


def test_a_step_gives_the_same_in_another_process(tmp_path):
    """And nothing is compiled there."""
    configure()
    weights = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def step(x):
        return tf.matmul(x, weights), tf.reduce_sum(x)

    predict = export_single_step(step, str(tmp_path / "model"), 10, X)
    product, total = step(VALUE)
    here = predict(VALUE)

    assert here["output_0"].numpy().tolist() == product.numpy().tolist()
    assert here["output_1"].numpy() == total.numpy()
    weights.assign(weights * 0.0)
    there, compiles = in_another_process(tmp_path / "model")
    assert there == {
        "output_0": product.numpy().tolist(),
        "output_1": float(total.numpy()),
    }
    assert compiles == 0


def test_a_pipeline_gives_what_its_stages_give(tmp_path):
    """In another process, too; with inputs of the first stage."""
    configure(2)
    weights = tf.Variable([[1.0], [2.0], [3.0]])
    stages = [lambda a, x: tf.matmul(x, weights) + a, lambda y: y * 2.0]
    predict = export_pipeline(
        stages,
        str(tmp_path / "model"),
        iterations=4,
        inputs=[10.0],
        device_mapping=[0, 1],
        pipeline_schedule=PipelineSchedule.Grouped,
        predict_step_signature=X,
        output_names="y",
    )
    wanted = ((VALUE @ [[1.0], [2.0], [3.0]] + 10.0) * 2.0).tolist()

    assert predict(VALUE)["y"].numpy().tolist() == wanted
    there, compiles = in_another_process(tmp_path / "model", 2)
    assert (there, compiles) == ({"y": wanted}, 0)


def test_a_pipeline_that_waits_for_calls_is_not_reported(tmp_path, caplog):
    """Its later stages wait as long as none comes; the program is not late."""
    configure(2)
    predict = export_pipeline(
        [lambda x: x * 2.0, lambda y: y + 1.0],
        str(tmp_path / "model"),
        iterations=4,
        device_mapping=[0, 1],
        predict_step_signature=X,
    )
    set_stall_report(0.05)
    try:
        for _ in range(2):
            (found,) = predict(VALUE).values()
            time.sleep(0.4)  # for the report, which would come by itself
    finally:
        set_stall_report(30)

    assert found.numpy().tolist() == (VALUE * 2.0 + 1.0).tolist()
    assert "has waited for" not in caplog.text


@pytest.mark.parametrize(
    "inputs",
    [10.0, tf.constant(10.0), np.float32(10), (10.0,)],
    ids=["float", "tensor", "scalar", "tuple"],
)
def test_a_pipeline_takes_a_single_input(tmp_path, inputs):
    """As pipelining_ops.pipeline does."""
    configure(2)
    predict = export_pipeline(
        [lambda a, x: x + a, lambda y: y * 2.0],
        str(tmp_path / "model"),
        iterations=4,
        inputs=inputs,
        predict_step_signature=X,
    )
    found = predict(VALUE)["output_0"].numpy()
    assert found.tolist() == ((VALUE + 10.0) * 2.0).tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"inputs": {"a": 1.0}},
            TypeError,
            "`inputs` must be a list .*got dict: .*list",
        ),
        (
            {"inputs": "a"},
            TypeError,
            r"`inputs\[0\]` must be of numbers or bools, got a",
        ),
        (
            {"iterations": 3},
            tf.errors.FailedPreconditionError,
            "Pipeline depth is invalid.*a multiple of 2, but it is 3.*`iterations`",
        ),
        (
            {"device_mapping": [0]},
            ValueError,
            "mapped to an IPU: 1 mappings != 2 stages",
        ),
        (
            {"computational_stages": [two, lambda x: None]},
            ValueError,
            "last of `computational_stages` must return a tensor.*returns none",
        ),
        ({"pipeline_schedule": "x"}, TypeError, "enumeration, got 'x'. Give one of"),
        ({"poplar_options": 3}, TypeError, "must be a list .* got int"),
        ({"name": 3}, TypeError, "`name` must be a str or None, got int 3"),
    ],
)
def test_a_pipeline_is_checked_at_its_export(tmp_path, arguments, error, words):
    """Not when the model is called; nothing is written."""
    configure(2)
    given = {"computational_stages": [two, identity], "inputs": [1.0]}
    given |= {"iterations": 4, "predict_step_signature": X} | arguments
    with pytest.raises(error, match=words):
        export_pipeline(export_dir=str(tmp_path / "model"), **given)
    assert not (tmp_path / "model").exists()


def test_steps_before_and_after_run_on_the_host(tmp_path):
    """The signature is then of the first step; strings are only for the host."""
    configure()

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32)])
    def step(x):
        return x * 2.0

    predict = export_single_step(
        step,
        str(tmp_path / "model"),
        10,
        preprocessing_step=numbers,
        preprocessing_step_signature=[tf.TensorSpec([], tf.string)],
        postprocessing_step=lambda y: tf.strings.as_string(y, precision=1),
        output_names=["text"],
    )

    assert predict(tf.constant("1,2,3"))["text"].numpy().tolist() == [
        b"2.0",
        b"4.0",
        b"6.0",
    ]


def numbers(text):
    return tf.ensure_shape(tf.strings.to_number(tf.strings.split(text, ",")), [3])


def test_a_dataset_or_the_step_itself_defines_its_inputs(tmp_path):
    """In place of predict_step_signature."""
    configure()
    dataset = tf.data.Dataset.from_tensors(VALUE)
    predict = export_single_step(
        lambda x: x + 1.0, str(tmp_path / "a"), 10, input_dataset=dataset
    )
    assert predict(VALUE)["output_0"].numpy().tolist() == (VALUE + 1).tolist()

    step = tf.function(lambda x: x - 1.0, input_signature=X)
    predict = export_single_step(step, str(tmp_path / "b"), 10)
    assert predict(VALUE)["output_0"].numpy().tolist() == (VALUE - 1).tolist()


@pytest.mark.parametrize("own", [True, False], ids=["of the step", "as an argument"])
def test_an_input_has_the_name_of_its_spec(tmp_path, own):
    """As in a SavedModel of TensorFlow; without one, that of the parameter."""
    signature = [tf.TensorSpec([2, 3], name="pixels"), tf.TensorSpec([2, 3])]

    def step(x, bias):
        return 2.0 * x + bias

    configure()
    folder = str(tmp_path / "model")
    if own:
        export_single_step(tf.function(step, signature), folder, 2)
    else:
        export_single_step(step, folder, 2, signature)
    predict = tf.saved_model.load(folder).signatures["serving_default"]

    assert set(predict.structured_input_signature[1]) == {"pixels", "bias"}
    found = predict(pixels=tf.ones([2, 3]), bias=tf.ones([2, 3]))
    assert np.all(found["output_0"] == 3.0)


def test_predict_may_be_called_by_several_threads(tmp_path):
    """More threads than TensorFlow has for operations: none waits for another's end."""
    configure()
    predict = export_single_step(lambda x: x * 3.0, str(tmp_path / "a"), 10, X)
    wrong = []

    def call(thread):
        for number in range(20):
            value = np.full([2, 3], 100.0 * thread + number, np.float32)
            if predict(value)["output_0"].numpy()[0, 0] != 3 * value[0, 0]:
                wrong.append((thread, number))

    threads = [threading.Thread(target=call, args=(each,)) for each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


DATASET = tf.data.Dataset.range(1)
CASES = {
    "Both `predict_step_signature` and `input_dataset` cannot be": {
        "predict_step_signature": X,
        "input_dataset": DATASET,
    },
    "The signature of `predict_step` is missing": {},
    "gives float32 .2, 3. at position 0, and `predict_step` takes": {
        "predict_step_signature": [tf.TensorSpec([2], tf.float32)],
        "preprocessing_step": identity,
        "preprocessing_step_signature": X,
    },
    "`predict_step` gives float32 .2, 3. at position 0, and `postprocessing_step`": {
        "predict_step_signature": X,
        "postprocessing_step": identity,
        "postprocessing_step_signature": [tf.TensorSpec([2], tf.float32)],
    },
    "must be fully defined": {
        "predict_step_signature": [tf.TensorSpec([None], tf.float32)]
    },
    "`iterations` must be at least 1": {"iterations": 0},
    "without a `preprocessing_step`": {
        "predict_step_signature": X,
        "preprocessing_step_signature": X,
    },
}


@pytest.mark.parametrize("words", CASES)
def test_signatures_that_do_not_fit(tmp_path, words):
    """Errors before anything is compiled or written."""
    options = {"iterations": 10, **CASES[words]}
    with pytest.raises(ValueError, match=words):
        export_single_step(identity, str(tmp_path / "model"), **options)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            [two, 10, X],
            "`predict_step` cannot be called with the 1 tensor of its signature: missing "
            r"a required argument: 'y'. It is `two\(x, y\)`",
        ),
        ([identity, 10, [*X, *X]], "called with the 2 tensors of its signature: too"),
        (
            [identity, 10, X, None, None, two, X],
            "`preprocessing_step` cannot be called with the 1 tensor",
        ),
        (
            [identity, 10, X, None, None, None, None, two],
            "`postprocessing_step` cannot be called with the 1 tensor of the step before",
        ),
        (
            [identity, 10, X, None, None, None, None, 3],
            "`postprocessing_step` must be a function, got int",
        ),
        ([identity, 10, X, None, 3], "output_names must be either a string or a list"),
    ],
    ids=["few", "many", "before", "after", "no step", "names"],
)
def test_a_step_takes_what_its_signature_has(tmp_path, arguments, words):
    """And what is in the folder stays, also if it was to be replaced."""
    configure()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "note").write_text("mine")
    step, *others = arguments
    with pytest.raises(TypeError, match=words):
        export_single_step(
            step, str(tmp_path / "model"), *others, purge_export_dir=True
        )
    assert (tmp_path / "model" / "note").read_text() == "mine"


def test_what_is_exported_and_where_is_named(tmp_path):
    configure()
    with pytest.raises(TypeError, match="must be a list of at least one function, got"):
        export_pipeline(identity, str(tmp_path / "a"), 10, predict_step_signature=X)
    with pytest.raises(TypeError, match="`export_dir` must be a path, got int 3"):
        export_single_step(identity, 3, 10, X)
    with pytest.raises(ValueError, match=r"`predict_step\(\)` must be a tensor, or a"):
        export_single_step(lambda x: None, str(tmp_path / "a"), 10, X)


def test_names_and_folders(tmp_path):
    """As many names as results; a folder that is not empty stays as it is."""
    configure()
    with pytest.raises(TypeError, match="must be either a string or a list, received"):
        export_single_step(identity, str(tmp_path / "a"), 10, X, output_names=3)
    with pytest.raises(ValueError, match="Length of output_names does not match"):
        export_single_step(
            identity, str(tmp_path / "a"), 10, X, output_names=["a", "b"]
        )
    full = tmp_path / "full"
    full.mkdir()
    (full / "note").write_text("mine")
    with pytest.raises(ValueError, match=r"is not empty\. Please specify an empty"):
        export_single_step(identity, str(full), 10, X)
    assert (full / "note").read_text() == "mine"
    export_single_step(identity, str(full), 10, X, purge_export_dir=True)
    assert not (full / "note").exists()
    (tmp_path / "link").symlink_to(full)
    with pytest.raises(ValueError, match="must be a directory"):
        export_single_step(
            identity, str(tmp_path / "link"), 10, X, purge_export_dir=True
        )


def test_without_ipufeed_the_error_advises_to_import_it(tmp_path):
    """TensorFlow alone can load the model, and cannot call it."""
    configure()
    export_single_step(identity, str(tmp_path / "model"), 10, X)
    code = f"""
import tensorflow as tf
model = tf.saved_model.load({str(tmp_path / "model")!r})
try:
    model.signatures["serving_default"](x=tf.zeros([2, 3]))
except tf.errors.OpError as error:
    print("import ipufeed" in str(error))
"""
    assert run_python(code).stdout.splitlines()[-1:] == ["True"]
