"""Copies of a registered table to its variable: interrupted ones, several at a time."""

import pytest
import tensorflow as tf

from ipufeed.ops.host import tables
from ipufeed.ops.host_embedding import create_host_embedding

pytestmark = pytest.mark.usefixtures("clean_system")
v1 = tf.compat.v1


def made(name):
    return create_host_embedding(name, [3, 2], tf.float32, initializer=tf.ones([3, 2]))


def test_a_copy_that_is_interrupted_is_made_by_the_next_read(monkeypatch):
    """Ctrl-C may come while the rows are assigned."""
    embedding = create_host_embedding(
        "e", [3, 2], tf.float32, initializer=tf.ones([3, 2])
    )
    tensor = embedding.get_embedding_tensor()

    def interrupted(rows):
        raise KeyboardInterrupt

    with embedding.register():
        table = tables.find("e")
        table.rows[1], table.changed = 5, True
        with monkeypatch.context() as patch:
            patch.setattr(tensor, "assign", interrupted)
            with pytest.raises(KeyboardInterrupt):
                tensor.numpy()
        assert tensor.numpy().tolist() == [[1, 1], [5, 5], [1, 1]]


def test_registrations_may_end_in_another_order_than_they_began():
    """The session of both makes the copies of each until its end, and is then itself."""
    with tf.Graph().as_default(), v1.Session() as session:
        both = [made("first"), made("second")]
        tensors = [each.get_embedding_tensor() for each in both]
        session.run(v1.global_variables_initializer())
        first, second = (each.register(session) for each in both)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        table = tables.find("second")
        table.rows[1], table.changed = 5, True
        rows = session.run(tensors[1])
        second.__exit__(None, None, None)

        assert rows.tolist() == [[1, 1], [5, 5], [1, 1]]
        assert session.run(tensors[0]).tolist() == [[1, 1]] * 3
        assert "run" not in vars(session)
