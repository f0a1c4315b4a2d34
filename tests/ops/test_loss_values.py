"""Values of CTC losses, beam search and sampled losses, against their definitions."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from formulas import RNG, softmax

import ipufeed as ipu


def ctc(probabilities, labels, blank):
    """-log of the sum over all alignments, one after another."""
    total = 0.0
    classes = probabilities.shape[-1]
    for path in itertools.product(range(classes), repeat=len(probabilities)):
        collapsed = [key for key, _ in itertools.groupby(path) if key != blank]
        if collapsed == list(labels):
            total += np.prod(
                [row[each] for row, each in zip(probabilities, path, strict=True)]
            )
    return -np.log(total)


@pytest.mark.parametrize("blank", [0, 2, -1])
def test_ctc_losses_sum_over_all_alignments(blank):
    """Of logits, and of log probabilities; a gradient of both is the same."""
    logits = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    labels = np.array([[1, 0 if blank % 3 == 2 else 2], [1, 1]])
    lengths = [2, 1]
    logit_lengths = [4, 3]
    expected = [
        ctc(softmax(logits[: logit_lengths[b], b]), labels[b, : lengths[b]], blank % 3)
        for b in range(2)
    ]
    x = tf.constant(logits)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        of_logits = ipu.nn_ops.ctc_loss_v2(labels, x, lengths, logit_lengths, blank)
        of_logs = ipu.nn_ops.ctc_loss_with_log_probs(
            labels, tf.nn.log_softmax(x), lengths, logit_lengths, blank
        )

    np.testing.assert_allclose(of_logits, expected, rtol=1e-5)
    np.testing.assert_allclose(of_logs, expected, rtol=1e-5)
    np.testing.assert_allclose(
        tape.gradient(of_logits, x), tape.gradient(of_logs, x), atol=1e-5
    )


def test_ctc_lengths_and_labels_do_not_wrap():
    """2^32 was a sequence of length 0, and the label 2^32 + 1 was 1."""
    logits = np.random.default_rng(0).normal(size=(3, 1, 4)).astype(np.float32)

    def loss(label, length):
        return ipu.nn_ops.ctc_loss_v2([[label]], logits, [1], [length], 0)

    np.testing.assert_array_equal(loss(1, 2**32), loss(1, 3))
    assert loss(2**32 + 1, 3) != loss(1, 3)


@pytest.mark.parametrize("blank", [-1, 0, -2])
def test_the_beam_search_finds_the_best_labels(blank):
    """Against all label sequences of three times, by their probability."""
    logits = RNG.normal(size=(3, 2, 3)).astype(np.float32) * 2
    arguments = {"beam_width": 50, "top_paths": 2, "blank_index": blank}
    found = ipu.nn_ops.ctc_beam_search_decoder(logits, [3, 2], **arguments)
    of_logs = ipu.nn_ops.ctc_beam_search_decoder_with_log_probs(
        tf.nn.log_softmax(logits), [3, 2], **arguments
    )
    scores, lengths, labels = found

    for one, other in zip(found, of_logs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert labels.shape == (2, 2, 3)
    for batch, time in ((0, 3), (1, 2)):
        probabilities = softmax(logits[:time, batch])
        others = [each for each in range(3) if each != blank % 3]
        sequences = [
            [*each]
            for length in range(time + 1)
            for each in itertools.product(others, repeat=length)
        ]
        with np.errstate(divide="ignore"):
            losses = [ctc(probabilities, each, blank % 3) for each in sequences]
        best = np.argsort(losses)[:2]
        for path, index in enumerate(best):
            length = lengths[batch, path].numpy()
            assert labels[batch, path, :length].numpy().tolist() == sequences[index]
            np.testing.assert_allclose(scores[batch, path], -losses[index], rtol=1e-4)


def test_losses_over_sampled_classes_take_accidental_hits():
    """With given samples, against the formula; a list of weights is its first."""
    weights, biases = RNG.normal(size=(6, 4)), RNG.normal(size=6)
    inputs, labels = RNG.normal(size=(3, 4)), np.array([[1], [5], [0]])
    classes, of_true, of_sampled = [1, 2], np.full((3, 1), 0.5), [0.7, 0.2]
    given = (np.array(classes, np.int64), of_true, np.array(of_sampled))
    arguments = [np.asarray(each, np.float32) for each in (weights, biases)]
    sampled = (given[0], *(each.astype(np.float32) for each in given[1:]))
    soft, noise = (
        loss(
            [arguments[0]],
            arguments[1],
            labels,
            inputs.astype(np.float32),
            2,
            6,
            sampled_values=sampled,
        ).numpy()
        for loss in (ipu.nn_ops.sampled_softmax_loss, ipu.nn_ops.nce_loss)
    )

    chosen = np.concatenate([labels, np.tile(classes, (3, 1))], axis=1)
    counts = np.concatenate([of_true, np.tile(of_sampled, (3, 1))], axis=1)
    logits = (
        (weights[chosen] @ inputs[..., None])[..., 0] + biases[chosen] - np.log(counts)
    )
    np.testing.assert_allclose(soft, -np.log(softmax(logits)[:, 0]), rtol=1e-4)
    signs = np.array([1, -1, -1])
    np.testing.assert_allclose(
        noise, np.log1p(np.exp(-signs * logits)).sum(1), rtol=1e-4
    )


def test_sampled_classes_are_log_uniform_and_differ():
    """The first of a sample has the distribution, within four deviations."""
    from ipufeed.device.random.candidates import Seed, sample_classes

    @tf.function
    def firsts():
        classes, of_true, of_sampled = sample_classes([[0, 3]], 4, 10, Seed(0))
        return classes, of_true, of_sampled

    runs = [[each.numpy() for each in firsts()] for _ in range(400)]
    p = np.log((np.arange(10) + 2) / (np.arange(10) + 1)) / np.log(11)
    share = np.mean([run[0][0] == 0 for run in runs])

    assert all(len({*run[0]}) == 4 and max(run[0]) < 10 for run in runs)
    assert abs(share - p[0]) < 4 * np.sqrt(p[0] * (1 - p[0]) / 400)
    # The expected counts belong to one number of draws, the same for all classes.
    for classes, of_true, of_sampled in runs[:10]:
        draws = np.log1p(-of_true[0, 0]) / np.log1p(-p[0])
        assert abs(draws - round(draws)) < 1e-2
        np.testing.assert_allclose(
            of_sampled, 1 - (1 - p[classes]) ** round(draws), rtol=1e-3
        )


@pytest.mark.parametrize("name", ["sampled_softmax_loss", "nce_loss"])
def test_a_sampled_loss_is_trained_by_optimizers_that_update_whole_tensors(name):
    """XLA has no update of single rows for most of them. The numbers are TensorFlow's."""
    v1, compile_program = tf.compat.v1, ipu.ipu_compiler.compile
    sampled = np.full([3, 1], 0.5, np.float32), np.float32([0.7, 0.2])

    def trained(loss, compiled, **others):
        def net():
            weights = v1.get_variable(
                "weights", initializer=np.ones([6, 4], np.float32)
            )
            biases = v1.get_variable("biases", initializer=np.zeros([6], np.float32))
            classes = tf.constant([1, 2], tf.int64)
            value = loss(
                weights,
                biases,
                tf.constant([[1], [5], [0]], tf.int64),
                tf.ones([3, 4]),
                2,
                6,
                sampled_values=(classes, *map(tf.constant, sampled)),
                **others,
            )
            step = v1.train.AdagradOptimizer(0.1).minimize(value)
            with tf.control_dependencies([step]):
                return [weights.read_value(), biases.read_value()]

        device = "/device:IPU:0" if compiled else "/device:CPU:0"
        with tf.Graph().as_default(), tf.device(device), v1.Session() as session:
            with v1.variable_scope("", use_resource=True):
                program = compile_program(net) if compiled else net()
            session.run(v1.global_variables_initializer())
            return session.run(program)

    found = trained(getattr(ipu.nn_ops, name), True)
    expected = trained(getattr(tf.nn, name), False, remove_accidental_hits=False)

    assert np.any(found[1])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("loss", ["nce_loss", "sampled_softmax_loss"])
def test_a_list_of_weights_has_a_tensor(loss):
    """The first of a list counts."""
    call = getattr(ipu.nn_ops, loss)
    rest = (np.zeros(10, np.float32), [[1], [2]], np.ones([2, 3], np.float32), 3, 10)
    with pytest.raises(
        ValueError, match="`weights` must be a tensor, or a list of one"
    ):
        call([], *rest)
    assert call([np.ones([10, 3], np.float32)], *rest).shape == [2]


@pytest.mark.parametrize("seed", [True, "x", 2.5, [], {}], ids=repr)
def test_a_seed_of_samples_is_an_integer(seed):
    """An empty list, too, which is not the default."""
    weights, biases = np.ones([10, 3], np.float32), np.zeros(10, np.float32)
    inputs = np.ones([2, 3], np.float32)
    with pytest.raises(TypeError, match="`seed` must be an int or None, got"):
        ipu.nn_ops.sampled_softmax_loss(
            weights, biases, [[1], [2]], inputs, 3, 10, seed=seed
        )


def test_beams_are_counted_in_32_bits():
    with pytest.raises(
        ValueError, match="beam_width must be at most 2147483647, got 1"
    ):
        ipu.nn_ops.ctc_beam_search_decoder(tf.zeros([5, 1, 4]), [5], 10**12)


LOGITS, LABELS, TWO_LENGTHS = np.ones([5, 2, 4], np.float32), [[0, 1], [2, 1]], [2, 2]
WRONG_LOGITS = {
    "a single sequence": (
        LOGITS[:, 0],
        r"must be \[time, .*shape \(5, 4\)\. Give a si",
    ),
    "four dimensions": (LOGITS[None], r"got the shape \(1, 5, 2, 4\)\.$"),
    "integers": (LOGITS.astype(int), "must be floats, got int64"),
    "bools": (LOGITS > 0, "must be floats, got bool"),
    "complex": (LOGITS * 1j, "must be floats, got complex"),
}


@pytest.mark.parametrize("case", WRONG_LOGITS)
def test_logits_of_ctc_are_floats_of_three_dimensions(case):
    """Each function names them as its own argument, at the call."""
    wrong, words = WRONG_LOGITS[case]
    calls = {
        "logits": [
            lambda: ipu.nn_ops.ctc_loss_v2(LABELS, wrong, TWO_LENGTHS, [5, 5], 3),
            lambda: ipu.nn_ops.ctc_beam_search_decoder(wrong, [5, 5]),
        ],
        "data": [
            lambda: ipu.nn_ops.ctc_loss_with_log_probs(
                LABELS, wrong, TWO_LENGTHS, [5, 5], 3
            )
        ],
        "log_probs": [
            lambda: ipu.nn_ops.ctc_beam_search_decoder_with_log_probs(wrong, [5, 5])
        ],
    }
    for name, several in calls.items():
        for call in several:
            with pytest.raises((TypeError, ValueError), match=f"^`{name}` .*{words}"):
                call()


@pytest.mark.parametrize("lengths", [5, [5, 5, 5], [[5, 5]]])
def test_the_beam_search_names_lengths_of_another_shape(lengths):
    """As the losses do, and not as TensorFlow's kernel, when it runs."""
    for decode, name in (
        (ipu.nn_ops.ctc_beam_search_decoder, "logits_lengths"),
        (ipu.nn_ops.ctc_beam_search_decoder_with_log_probs, "input_lengths"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} has"):
            decode(LOGITS, lengths)


def test_ctc_names_labels_of_another_rank_and_what_is_empty():
    """The batch of labels of one dimension was an IndexError."""
    with pytest.raises(ValueError, match=r"`labels` must be \[batch, .*shape \(2,\)"):
        ipu.nn_ops.ctc_loss_v2(LABELS[0], LOGITS, TWO_LENGTHS, [5, 5], 3)
    with pytest.raises(ValueError, match="`log_probs` must not be empty"):
        ipu.nn_ops.ctc_beam_search_decoder_with_log_probs(LOGITS[:0], [0, 0])
    with pytest.raises(ValueError, match="`beam_width` must be at least 1, got 0"):
        ipu.nn_ops.ctc_beam_search_decoder(LOGITS, [5, 5], 0, 0)
