"""The shell recipe of docs/ci.md does what the page says, run as it stands there.

Only the measurements are shorter here. Which verdict comes out depends on what else the
machine does; that script and comparison agree, and that nothing failed, does not. It takes
seven processes that import TensorFlow: marked `soak`.
"""

import json
import os
import re
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = [pytest.mark.process, pytest.mark.long]

SAID = {
    "held": (0, "the feed is as fast as on main, or faster"),
    "slower": (1, "the feed is slower than on main"),
    "cannot tell": (0, "cannot tell: see above what it would take"),
}
FEED = """
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

dataset = tf.data.Dataset.range(1).repeat().apply(testing.sleep({us}))
"""
FAILS = """
import tensorflow as tf

dataset = tf.data.Dataset.range(9).map(lambda i: tf.ensure_shape(tf.range(i), [3]))
"""


def recipe():
    """The page's script, with measurements of half a second."""
    page = (ROOT / "docs" / "ci.md").read_text()
    (script,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    assert script.count("feed.py --quiet") == 1
    return script.replace("feed.py --quiet", "feed.py --quiet --seconds 0.5")


def run(folder, branch):
    """Runs it on a main of 1 ms for an element, and a branch."""
    for side, text in (("main", FEED.format(us=1000)), ("branch", branch)):
        (folder / side).mkdir()
        (folder / side / "feed.py").write_text(text)
    programs = folder / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    return subprocess.run(
        ["bash", "-c", recipe()],
        capture_output=True,
        text=True,
        timeout=2 * DEADLOCK_S,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        },
    )


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_recipe_shows_the_text_of_the_comparison(tmp_path):
    """Three runs of each side, one verdict, and the exit code that goes with it."""
    done = run(tmp_path, FEED.format(us=1500))

    comparison = json.loads((tmp_path / "comparison.json").read_text())
    code, sentence = SAID[comparison["gate"]["verdict"]]
    assert (done.returncode, done.stdout.strip()) == (code, sentence), done.stderr
    assert comparison["base"]["names"] == ["main-1.json", "main-2.json", "main-3.json"]
    assert comparison["new"]["names"] == [f"branch-{n}.json" for n in (1, 2, 3)]


def test_the_recipe_stops_where_a_side_cannot_be_measured(tmp_path):
    """A dataset that fails does not hold the gate."""
    done = run(tmp_path, FAILS)

    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "comparison.json").exists()
