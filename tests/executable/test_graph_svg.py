"""What the picture of a program promises: XML, whatever names are in it, of a size."""

from xml.etree import ElementTree

import tensorflow as tf
from report_programs import lowered, module

from ipufeed.executable.hlo.hlo import Module
from ipufeed.executable.report.graph import MOST_NODES, graph_of
from ipufeed.executable.report.graph_svg import draw

HOSTILE = '"><img src=x onerror=alert(1)></title></svg><script>alert(1)</script>&\x07'


def test_a_loop_is_a_box_around_its_steps():
    """With what its body does inside."""
    one = module(
        lambda x: tf.while_loop(
            lambda x: tf.reduce_sum(x) < 7.0, lambda x: (tf.matmul(x, x),), [x]
        )[0],
        tf.ones([4, 4]),
    )

    graph = graph_of(one.entry, "program")

    (loop,) = [node for node in graph.nodes if node.inside]
    assert loop.title == "loop: count known when it runs"
    assert "product" in [node.kind for node in loop.inside[0].nodes]
    ElementTree.fromstring(draw(one))


def test_hostile_names_are_text():
    """None of them opens an element, and what XML forbids is left out."""
    proto = lowered(lambda x: tf.tanh(x) * 2.0, tf.ones([3]))
    for computation in proto.computations:
        for one in computation.instructions:
            one.metadata.op_name = HOSTILE

    picture = draw(Module.of(proto))

    tags = {
        each.tag.rpartition("}")[2] for each in ElementTree.fromstring(picture).iter()
    }
    assert tags <= {"svg", "title", "rect", "text", "path", "g"}
    assert "<script" not in picture


def test_a_large_program_is_drawn_with_few_boxes():
    """Neighbours with little to do are one; products are always shown."""

    def deep(x):
        for n in range(200):
            x = tf.reverse(x, [n % 2]) * (n + 0.5)
        return tf.matmul(x, x)

    graph = graph_of(module(deep, tf.ones([8, 8])).entry, "program")

    assert len(graph.nodes) <= MOST_NODES + 1
    assert any(node.kind == "group" for node in graph.nodes)
    assert any(node.kind == "product" for node in graph.nodes)


def test_arrows_point_down():
    """A node comes after all that it takes something of, also where many are one."""

    def deep(x):
        for n in range(100):
            x = tf.reverse(x, [n % 2]) * x
        return x

    seen = set()
    for node in graph_of(module(deep, tf.ones([8, 8])).entry, "program").nodes:
        assert all(id(source) in seen for source in node.sources)
        seen.add(id(node))


def test_the_legend_of_a_small_program_is_inside_the_picture():
    """The last of its words was cut."""
    picture = draw(module(lambda x: x + 1.0, tf.ones([3])))

    root = ElementTree.fromstring(picture)
    *_, last = [
        each
        for each in root.iter()
        if each.tag.endswith("text") and each.text == "group"
    ]
    letters = 7 * len("group")
    assert float(last.get("x")) + letters <= float(root.get("width"))
