"""What loading the library promises: it loads, or says in one sentence what to do."""

import shutil
from pathlib import Path

import pytest
from helpers import ROOT, run_python

from ipufeed import _native
from ipufeed.errors import LibraryMissingError, LibraryVersionError


def test_the_library_reports_what_it_was_built_from():
    """Its build information matches the installed TensorFlow and these sources."""
    import tensorflow as tf

    info = _native.build_info(_native.find_library())

    assert info["tensorflow"].split(".")[:2] == tf.__version__.split(".")[:2]
    assert info["sources"] == _native.fingerprint(ROOT / "ipufeed" / "cc")


def test_the_library_names_no_folder_of_the_machine_that_built_it():
    """Messages of TensorFlow's headers name the file in its package."""
    library = _native.find_library()
    text = library.read_bytes()

    assert b"tensorflow/core/framework/tensor.h" in text
    sanitized = _native.build_info(library)["sanitizer"]  # with debug information
    assert sanitized or b"site-packages" not in text


def test_another_tensorflow_is_named_with_both_versions():
    """After an upgrade of TensorFlow the error names both versions, and the command."""
    _native.check_version("2.21.0", "2.21.3")

    with pytest.raises(
        LibraryVersionError, match=r"2\.20\.0, but 2\.21\.0 .*--no-deps"
    ):
        _native.check_version("2.20.0", "2.21.0")


def test_a_damaged_library_is_refused(tmp_path):
    """A file without our build information is not handed to the loader."""
    path = tmp_path / "libipufeed.so"
    path.write_bytes(b"\x7fELF" + bytes(5000))

    with pytest.raises(LibraryVersionError, match=r"damaged.*pip install \."):
        _native.build_info(path)


def copy_package(to: Path) -> Path:
    """A second ipufeed, as a checkout without its library."""
    return Path(
        shutil.copytree(
            ROOT / "ipufeed",
            to / "ipufeed",
            ignore=shutil.ignore_patterns("*.so", "__pycache__"),
        )
    )


@pytest.mark.process
def test_a_missing_library_is_an_import_error_with_the_command(tmp_path):
    """`import ipufeed` without a built library says how to build it."""
    copy_package(tmp_path)

    done = run_python(
        f"""
import sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p and p != ""]
sys.path.insert(0, {str(tmp_path)!r})
try:
    import ipufeed
except ImportError as error:
    print(type(error).__name__, error)
"""
    )

    assert "LibraryMissingError" in done.stdout, done.stderr
    assert "Run `pip install .`" in done.stdout
    assert issubclass(LibraryMissingError, ImportError)


@pytest.mark.process
def test_a_checkout_takes_the_library_of_the_installed_package(tmp_path):
    """`pip install .` and then running from the checkout is not a mistake."""
    copy_package(tmp_path)
    site = tmp_path / "site"
    installed = copy_package(site)
    shutil.copy(_native.find_library(), installed / "libipufeed.so")
    info = site / "ipufeed-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: ipufeed\nVersion: 0.1.0\n"
    )

    done = run_python(
        f"""
import sys
sys.path[:0] = [{str(tmp_path)!r}, {str(site)!r}]
import ipufeed
from ipufeed import _native
print(ipufeed.__file__)
print(_native.find_library())
"""
    )

    assert done.returncode == 0, done.stderr
    package, library = done.stdout.split()
    assert package == str(tmp_path / "ipufeed" / "__init__.py")
    assert library == str(installed / "libipufeed.so")


@pytest.mark.process
def test_a_library_of_other_sources_is_refused(tmp_path):
    """A checkout that has changed since the build says so, instead of being wrong."""
    package = copy_package(tmp_path)
    shutil.copy(_native.find_library(), package / "libipufeed.so")
    header = package / "cc" / "core" / "feed.h"
    header.write_text(header.read_text() + "\n")

    done = run_python(
        f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
try:
    import ipufeed
except ImportError as error:
    print(type(error).__name__, error)
"""
    )

    assert "LibraryVersionError" in done.stdout, done.stderr
    assert "was built from other sources" in done.stdout


@pytest.mark.process
def test_a_second_copy_is_refused_and_both_are_named(tmp_path):
    """Two libraries in one process would abort it; this is an ImportError instead."""
    copy = tmp_path / "libipufeed.so"
    shutil.copy(_native.find_library(), copy)

    done = run_python(
        f"""
import tensorflow as tf
tf.load_op_library({str(copy)!r})
try:
    import ipufeed
except ImportError as error:
    print(type(error).__name__, error)
"""
    )

    assert "LibraryLoadedTwiceError" in done.stdout, done.stderr
    assert str(copy) in done.stdout
    assert str(_native.find_library()) in done.stdout


@pytest.mark.process
def test_importing_after_tensorflow_has_started_is_refused():
    """TensorFlow lists its devices once, so the import must come before its first op."""
    done = run_python(
        """
import tensorflow as tf
tf.constant(1)
try:
    import ipufeed
except ImportError as error:
    print(type(error).__name__, error)
"""
    )

    assert "TensorFlowStartedError" in done.stdout, done.stderr
    assert "Put `import ipufeed` before the first use of TensorFlow" in done.stdout


@pytest.mark.process
def test_importing_after_importing_tensorflow_is_fine():
    """Only running an op starts TensorFlow; the order of imports does not matter."""
    done = run_python(
        "import tensorflow as tf, ipufeed; print(int(tf.constant(1) + 1))"
    )

    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


def test_the_entry_points_agree_with_the_c_source():
    """Each C function of the library is declared in Python, and the other way round."""
    sources = (ROOT / "ipufeed" / "cc").rglob("*.cc")
    python = (ROOT / "ipufeed" / "_entry_points.py").read_text()

    defined = {
        line.split("(")[0].split()[-1]
        for source in sources
        for line in source.read_text().splitlines()
        if line.startswith("IPUFEED_API")
    }
    declared = {
        line.split('"')[1]
        for line in python.splitlines()
        if line.strip().startswith('("ipufeed_')
    }

    assert defined
    assert defined == declared
