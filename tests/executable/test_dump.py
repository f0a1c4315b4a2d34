"""What XLA_FLAGS=--xla_dump_to promises: files with the documented names."""

import re

import pytest
import tensorflow as tf
from replicated import on
from report_programs import on_ipu

from ipufeed.device.program.scopes import ipu_shard
from ipufeed.executable.program import context
from ipufeed.executable.report.dump import dump_options

pytestmark = pytest.mark.usefixtures("clean_system")


@pytest.fixture(scope="module", autouse=True)
def flags_are_read():
    """XLA reads XLA_FLAGS at its first program, and would dump what the tests do."""
    tf.function(lambda: tf.constant(1) + 1, jit_compile=True)()


def test_each_program_has_a_number_and_two_stages(tmp_path, monkeypatch):
    """As text that XLA can read, and as a graph for Graphviz."""
    folder = tmp_path / "made"
    monkeypatch.setenv(
        "XLA_FLAGS",
        f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_hlo_as_dot",
    )

    on_ipu(lambda x: tf.tanh(x) * 0.8125, tf.ones([3]))
    on_ipu(lambda x: tf.tanh(x) * 0.6875, tf.ones([3]))

    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        f"module_{number:04d}.{stage}.IPU.{what}.{form}"
        for number in (0, 1)
        for stage, what in (
            ("0000", "before_optimizations"),
            ("0001", "after_optimizations"),
        )
        for form in ("dot", "txt")
    ]
    for path in folder.glob("*.txt"):
        text = path.read_text()
        assert text.startswith("HloModule")
        assert "tanh" in text
    for path in folder.glob("*.dot"):
        assert re.match(r"digraph", path.read_text())


BEFORE_PASS = "0000.IPU.after_allocation-finder.before_forward-allocation"
AFTER_PASS = "0001.IPU.after_forward-allocation.before_hlo-memory-scheduler"


@pytest.mark.parametrize(
    ("passes", "selected"),
    [
        ("forward-allocation", [BEFORE_PASS, AFTER_PASS]),
        (".*", [BEFORE_PASS, AFTER_PASS]),
        ("allocation-finder", [BEFORE_PASS]),
        ("memory-sched", [AFTER_PASS]),
        ("simplif", []),
        ("[", []),
        (None, []),
    ],
)
def test_the_last_passes_have_their_files(tmp_path, monkeypatch, passes, selected):
    """The guide's own names: a program before and after each pass that is selected.

    The files are the program as it is at the end.
    """
    flag = "" if passes is None else f" --xla_dump_hlo_pass_re={passes}"
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path}{flag}")

    on_ipu(lambda x: tf.tanh(x) * (0.5 + len(selected) + len(flag)), tf.ones([3]))

    texts = {
        path.name.removeprefix("module_0000.").removesuffix(".txt"): path.read_text()
        for path in tmp_path.iterdir()
    }
    first = "0000.IPU.before_optimizations"
    last = f"000{2 if AFTER_PASS in selected else 1}.IPU.after_optimizations"
    assert sorted(texts) == sorted([first, *selected, last])
    assert texts[first] != texts[last]
    assert all(texts[each] == texts[last] for each in selected)


def drawn(dot):
    """The fill and the style of each node with a name."""
    return {
        name: (fill, style)
        for name, style, fill in re.findall(
            r'label=<<b>([\w. ]+)</b>.*?>, shape=\w+, tooltip="[^"]*", '
            r'style="([^"]*)",.* fillcolor="([^"]*)"',
            dot,
        )
    }


@pytest.mark.parametrize("style", ["graph", "function"])
@pytest.mark.parametrize("colours", [True, False])
def test_shards_have_colours(tmp_path, monkeypatch, style, colours):
    """A colour for each IPU; a step without a shard has that of its user."""
    flag = " --xla_hlo_graph_sharding_color" if colours else ""
    monkeypatch.setenv(
        "XLA_FLAGS", f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_dot{flag}"
    )

    def net(x):
        with ipu_shard(0):
            x = tf.add(x, x, name="first")
        with ipu_shard(1):
            x = tf.multiply(tf.tanh(x, name="between"), x, name="second")
        with ipu_shard(3):
            return tf.subtract(x, 1.0, name="last")

    with on(4, style) as ready:
        ready.run(net, 2.0)
    paths = sorted(tmp_path.glob("*.IPU.*.dot"))
    nodes = drawn(paths[0].read_text())
    steps = {name.partition(".")[0]: fill for name, (fill, _) in nodes.items()}
    fills = [steps[each] for each in ("first", "between", "second", "last")]

    assert len(paths) == 2
    assert "Parameter 0" in nodes
    if not colours:
        assert len(set(fills)) == 1
        return
    assert fills == ["#bbdefb", "#bcaaa4", "#bcaaa4", "#2e7d32"]
    after = {fill for fill, _ in drawn(paths[1].read_text()).values()}
    assert after >= {"#bbdefb", "#bcaaa4", "#2e7d32"}


def test_without_shards_borders_are_dashed(tmp_path, monkeypatch):
    """As XLA draws it."""
    monkeypatch.setenv(
        "XLA_FLAGS",
        f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_dot --xla_hlo_graph_sharding_color",
    )

    on_ipu(lambda x: tf.tanh(x) * 0.5625, tf.ones([3]))

    for path in tmp_path.glob("*.dot"):
        nodes = drawn(path.read_text())
        assert nodes
        assert set(nodes.values()) == {("white", "filled,dashed")}


def test_numbers_grow_over_processes(tmp_path, monkeypatch):
    """What another process has left there is not written over."""
    (tmp_path / "module_0041.0000.IPU.before_optimizations.txt").write_text("old")
    (tmp_path / "module_9000.jit_x.before_optimizations.txt").write_text("XLA's own")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path}")

    on_ipu(lambda x: tf.tanh(x) * 0.5625, tf.ones([3]))

    assert (tmp_path / "module_0042.0001.IPU.after_optimizations.txt").is_file()
    old = tmp_path / "module_0041.0000.IPU.before_optimizations.txt"
    assert old.read_text() == "old"


@pytest.mark.parametrize(
    "flags", ["", "--xla_dump_to=-", "--xla_dump_hlo_as_text", "'"]
)
def test_without_a_folder_nothing_is_dumped(monkeypatch, flags):
    """A "-" is stdout, which XLA serves itself."""
    monkeypatch.setenv("XLA_FLAGS", flags)

    assert dump_options() is None


def test_a_folder_that_cannot_be_made_is_a_warning(tmp_path, monkeypatch, caplog):
    """The program runs all the same."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to={tmp_path}/file/x")

    result = on_ipu(lambda x: x * 0.4375, tf.ones([2]))

    assert result.numpy().tolist() == [0.4375] * 2
    assert "cannot be dumped" in caplog.text


def test_flags_may_be_in_a_file(tmp_path, monkeypatch):
    """Like in XLA: text that does not begin with "-" is the file's name."""
    file = tmp_path / "flags.txt"
    monkeypatch.setenv("XLA_FLAGS", str(file))
    assert dump_options() is None  # no such file

    file.write_text(f"--xla_dump_to={tmp_path}/dump\n--xla_dump_hlo_as_dot\n")
    options = dump_options()

    assert options is not None
    assert options.folder == tmp_path / "dump"
    assert (options.dot, options.text) == (True, False)


def test_the_key_has_the_flags_of_a_file_without_those_of_dumps(tmp_path, monkeypatch):
    """A program's code depends on the flags, and not on the file's name."""
    file = tmp_path / "flags.txt"
    file.write_text("--xla_dump_to=dump --xla_cpu_enable_fast_math=true\n")
    monkeypatch.setenv("XLA_FLAGS", str(file))

    assert context._variables()["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=true"


@pytest.mark.parametrize(("modules", "count"), [("wanted", 2), (".*", 4), ("[", 0)])
def test_a_dump_can_be_for_selected_modules(tmp_path, monkeypatch, modules, count):
    """XLA's --xla_dump_hlo_module_re, which is searched in the module's name."""
    monkeypatch.setenv(
        "XLA_FLAGS", f"--xla_dump_to={tmp_path} --xla_dump_hlo_module_re={modules}"
    )

    def wanted(x):
        return tf.tanh(x) * (0.5 + len(modules))

    def other(x):
        return tf.tanh(x) * (0.25 + len(modules))

    on_ipu(wanted, tf.ones([3]))
    on_ipu(other, tf.ones([3]))

    assert len(list(tmp_path.iterdir())) == count
