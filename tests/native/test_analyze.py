"""tools/analyze.py, `nox -s analyze`: what clang must find in native sources."""

import shutil
import subprocess
import sys

import pytest
from helpers import DEADLOCK_S, ROOT

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(
        shutil.which("clang-tidy") is None, reason="clang-tidy is not installed"
    ),
]
COUNTER = """#pragma once
#include "core/mutex.h"
namespace ipufeed {
class Counter {
 public:
  int read() {
    MutexLock lock(mutex_);
    return count_;
  }
  int peek() { PEEK }

 private:
  Mutex mutex_;
  int count_ IPUFEED_GUARDED_BY(mutex_) = 0;
};
}  // namespace ipufeed
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("peek", "found"),
    [
        ("return read();", None),
        (
            "return count_;",
            "reading variable 'count_' requires holding mutex 'mutex_'",
        ),
        (
            "mutex_.lock(); return count_;",
            "mutex 'mutex_' is still held at the end of function",
        ),
    ],
    ids=["locked", "unlocked", "kept"],
)
def test_a_lock_that_is_missing_or_kept_is_found(tmp_path, peek, found):
    """By -Wthread-safety, as an error, through the annotations of core/mutex.h."""
    (tmp_path / "core").mkdir()
    for name in ("mutex.h", "cpu_relax.h"):
        shutil.copy(ROOT / "ipufeed/cc/core" / name, tmp_path / "core")
    (tmp_path / "counter.h").write_text(COUNTER.replace("PEEK", peek))
    (tmp_path / "counter.cc").write_text(
        '#include "counter.h"\nint main() { return ipufeed::Counter().peek(); }\n'
    )
    run = subprocess.run(
        [sys.executable, ROOT / "tools/analyze.py", "--sources", tmp_path],
        capture_output=True,
        text=True,
        timeout=DEADLOCK_S,
        check=False,
    )
    if found is None:
        assert run.returncode == 0, run.stdout + run.stderr
    else:
        assert run.returncode == 1
        assert found in run.stdout
