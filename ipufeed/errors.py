"""ipufeed's exceptions.

    IpufeedError
    ├── NativeLibraryError (ImportError)      the native library cannot be used
    │   ├── LibraryMissingError               it is missing
    │   ├── LibraryVersionError               it was built for another version
    │   ├── LibraryLoadedTwiceError           another copy is loaded
    │   └── TensorFlowStartedError            TensorFlow ran before it was loaded
    ├── DatasetFileError                      a dataset file defines no dataset
    ├── ComparisonError (ValueError)          results cannot be compared
    │   └── NothingToCompareError             a result has no rate
    ├── SourceError (ValueError)              files cannot be read as requested
    │   └── DamagedFileError                  a file is damaged: path, offset, record
    ├── ScaleOutError                         processes cannot be started or used
    ├── UnsupportedElementError (ValueError)  a feed cannot transfer these elements
    ├── ConfigError                           a configuration is invalid
    │   └── ConfigAttributeError (ValueError, AttributeError)   unknown attribute
    ├── DeviceOrdinalError (ValueError)       unknown or unconfigured IPU
    ├── PlacementError                        a program is outside of an IPU's scope
    ├── RecompileError                        a compilation within no_recompile()
    ├── RefusedError (NotImplementedError)    a function that needs a real IPU
    ├── PoplarFlagsError (SystemExit)         TF_POPLAR_FLAGS is invalid
    └── MeasurementInterrupted (KeyboardInterrupt)   Ctrl-C, with a partial result

Errors that a dataset raises keep TensorFlow's type (`tf.errors`).
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any


class IpufeedError(Exception):
    """The base class of ipufeed's exceptions."""

    # Of all bases of a subclass this one: autograph keeps the type of an error raised
    # inside a tf.function only if its __init__ is Exception's.
    if not TYPE_CHECKING:
        __init__ = Exception.__init__


class NativeLibraryError(IpufeedError, ImportError):
    """The native library cannot be used; the message says what to do."""


class LibraryMissingError(NativeLibraryError):
    """Neither this package nor an installed one has a native library."""


class LibraryVersionError(NativeLibraryError):
    """The native library was built for another TensorFlow, or from other sources."""


class LibraryLoadedTwiceError(NativeLibraryError):
    """This process has already loaded another copy of the native library."""


class TensorFlowStartedError(NativeLibraryError):
    """TensorFlow ran an op before ipufeed was imported."""


class DatasetFileError(IpufeedError):
    """A dataset file, or the function named in it, does not give a dataset."""


class ComparisonError(IpufeedError, ValueError):
    """An argument of a comparison is not a result, or cannot be compared."""


class NothingToCompareError(ComparisonError):
    """A result has no rate, as it has too few elements."""


class SourceError(IpufeedError, ValueError):
    """Files cannot be read as requested: those of a dataset, or an executable."""


class DamagedFileError(SourceError):
    """A file is damaged; the message has the place and the remedy.

    Attributes:
        path: The file.
        offset: Offset of the damaged record in bytes, after decompression; 0 in files
            without records, such as executables.
        record: Index of the damaged record: the number of whole records before it.
    """

    def __init__(self, message: str, path: str = "", offset: int = 0, record: int = 0):
        super().__init__(message)
        self.path = path
        self.offset = offset
        self.record = record


class ScaleOutError(IpufeedError):
    """The processes of a scale-out run cannot be started, reached or used."""


class UnsupportedElementError(IpufeedError, ValueError):
    """A feed cannot transfer elements that are ragged, sparse, text or datasets."""


class ConfigError(IpufeedError):
    """A configuration is contradictory, or an assignment to it is not allowed."""


# Graphcore's is a ValueError; `hasattr`, copy and pickle need an AttributeError.
class ConfigAttributeError(ConfigError, ValueError, AttributeError):
    """A configuration has no attribute of this name."""


class DeviceOrdinalError(IpufeedError, ValueError):
    """The IPU of a device ordinal does not exist or is not configured."""


class PlacementError(IpufeedError):
    """A program is compiled outside of an IPU's scope."""


class RecompileError(IpufeedError):
    """A program would be compiled within `ipufeed.no_recompile()`; has the causes."""

    error_code = 9  # a failed precondition, for TensorFlow


class RefusedError(IpufeedError, NotImplementedError):
    """A function of Graphcore's needs a real IPU; the message names a substitute."""


# Not an Exception: `except Exception` must not continue with wrong flags.
class PoplarFlagsError(SystemExit):
    """TF_POPLAR_FLAGS is invalid: the process ends with the message.

    In a thread other than the main one, Python ends only that thread, silently.
    """


# Not an Exception: `except Exception` must not swallow a Ctrl-C.
class MeasurementInterrupted(KeyboardInterrupt):
    """Ctrl-C during a measurement.

    Attributes:
        result: The partial `ipufeed.benchmark.Result`, or None
            if the dataset had delivered no element.
    """

    # Any: the class Result is in a package above this module.
    def __init__(self, result: Any = None) -> None:
        super().__init__("the measurement was interrupted")
        self.result = result


def frames_from(frames: TracebackType | None, path: str) -> TracebackType | None:
    """Cuts a traceback to begin at its first frame in a file; None if it has none."""
    while frames is not None and frames.tb_frame.f_code.co_filename != path:
        frames = frames.tb_next
    return frames
