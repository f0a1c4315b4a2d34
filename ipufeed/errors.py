"""Every exception of ipufeed's own.

    IpufeedError
    ├── NativeLibraryError (ImportError)      the op library cannot be used
    │   ├── LibraryMissingError               it is not there
    │   ├── LibraryVersionError               it was built for something else
    │   ├── LibraryLoadedTwiceError           another copy is in this process
    │   └── TensorFlowStartedError            TensorFlow ran before it was loaded
    ├── DatasetFileError                      a dataset file gives no dataset
    ├── ComparisonError (ValueError)          these results cannot be compared
    │   └── NothingToCompareError             one of them has no rate
    ├── SourceError (ValueError)              files that cannot be read as asked
    │   └── DamagedFileError                  a file is damaged: path, offset, record
    ├── ScaleOutError                         processes that cannot be started or used
    ├── UnsupportedElementError (ValueError)  a feed does not carry such elements
    ├── ConfigError                           settings that cannot be together
    │   └── ConfigAttributeError (ValueError, AttributeError)   no such attribute
    ├── DeviceOrdinalError (ValueError)       there is no such IPU device
    ├── PlacementError                        a program that is not placed on an IPU
    ├── RecompileError                        a program that must not be compiled again
    ├── RefusedError (NotImplementedError)    what works only on an IPU
    ├── PoplarFlagsError (SystemExit)         TF_POPLAR_FLAGS cannot be understood
    └── MeasurementInterrupted (KeyboardInterrupt)   Ctrl-C, with what was measured

What a dataset itself raises keeps TensorFlow's type (`tf.errors`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class IpufeedError(Exception):
    """The base of them all."""

    # Of all bases of a subclass this one: autograph keeps the type of an error that is
    # raised in a tf.function only then.
    if not TYPE_CHECKING:
        __init__ = Exception.__init__


class NativeLibraryError(IpufeedError, ImportError):
    """The native library cannot be used; the message says what to do."""


class LibraryMissingError(NativeLibraryError):
    """There is no native library next to the package, nor in an installed one."""


class LibraryVersionError(NativeLibraryError):
    """The native library was built for another TensorFlow, or from other sources."""


class LibraryLoadedTwiceError(NativeLibraryError):
    """Another copy of the native library is in this process already."""


class TensorFlowStartedError(NativeLibraryError):
    """TensorFlow had run an op before ipufeed was imported."""


class DatasetFileError(IpufeedError):
    """A dataset file, or what it was asked for, gives no dataset."""


class ComparisonError(IpufeedError, ValueError):
    """What was given to compare is not a result, or not one that can be compared."""


class NothingToCompareError(ComparisonError):
    """A result without a rate: too few elements, or none."""


class SourceError(IpufeedError, ValueError):
    """Files that a source of `ipufeed.sources` cannot read as it was asked to."""


class DamagedFileError(SourceError):
    """A file is damaged; the message says where, and the way out.

    Attributes:
        path: The file.
        offset: In bytes, of the record that is damaged; in a compressed file, in what
            comes out of it.
        record: Its number, from 0: the number of whole records before it.
    """

    def __init__(self, message: str, path: str = "", offset: int = 0, record: int = 0):
        super().__init__(message)
        self.path = path
        self.offset = offset
        self.record = record


class ScaleOutError(IpufeedError):
    """Processes that share the work cannot be started, reached or used."""


class UnsupportedElementError(IpufeedError, ValueError):
    """A feed does not carry such elements: ragged, sparse, text, nested datasets."""


class ConfigError(IpufeedError):
    """A configuration that cannot be, or an assignment to what takes none."""


# Graphcore's is a ValueError; `hasattr`, copy and pickle want an AttributeError.
class ConfigAttributeError(ConfigError, ValueError, AttributeError):
    """A configuration has no attribute of that name."""


class DeviceOrdinalError(IpufeedError, ValueError):
    """There is no IPU device of that number, or it has not been configured."""


class PlacementError(IpufeedError):
    """A program is compiled outside of an IPU's scope."""


class RecompileError(IpufeedError):
    """A program would be compiled within `ipufeed.no_recompile()`; it says why."""

    error_code = 9  # a failed precondition, for TensorFlow


class RefusedError(IpufeedError, NotImplementedError):
    """A name of the original's cannot work here; the message says what to use instead."""


# It is not an Exception, so that `except Exception` does not go on with wrong flags.
class PoplarFlagsError(SystemExit):
    """TF_POPLAR_FLAGS cannot be understood: the process ends with the message.

    In another thread than the main one Python ends only the thread, without a word.
    """


# It is not an Exception, so that `except Exception` does not swallow a Ctrl-C.
class MeasurementInterrupted(KeyboardInterrupt):
    """Ctrl-C during a measurement.

    Attributes:
        result: The `ipufeed.benchmark.Result` of what was measured until then, or None
            if the dataset had not delivered anything.
    """

    def __init__(self, result: Any = None) -> None:
        super().__init__("the measurement was interrupted")
        self.result = result
