"""What does reading files cost? Files in the page cache, all of them read to the end.

A `time_` value is for the number of records or rows in its name.
"""

import os

RECORDS, RECORD_BYTES = 100_000, 1000
ROWS, ROW_GROUP = 500_000, 65_536


class _Timed:
    rounds = 2
    repeat = 5
    number = 1  # each call is far above the 50 ms that a sample needs
    warmup_time = 0.0
    timeout = 300


class Records(_Timed):
    """TFRecord files of records of 1 kB."""

    def setup_cache(self):
        import tensorflow as tf

        path = os.path.abspath("records.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(RECORDS):
                writer.write(b"x" * RECORD_BYTES)
        return path

    def setup(self, path):
        from ipufeed.sources import check_tfrecord

        self.check = check_tfrecord

    def time_check_100000(self, path):
        self.check(path)


class Tables(_Timed):
    """Eight columns of float32, in batches of the default size."""

    def setup_cache(self):
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        random = np.random.default_rng(0)
        table = pa.table({f"x{k}": random.random(ROWS, np.float32) for k in range(8)})
        path = os.path.abspath("table")
        pq.write_table(table, f"{path}.parquet", row_group_size=ROW_GROUP)
        with (
            pa.OSFile(f"{path}.arrow", "wb") as file,
            pa.ipc.new_file(file, table.schema) as writer,
        ):
            writer.write_table(table, max_chunksize=ROW_GROUP)
        return path

    def setup(self, path):
        from ipufeed import sources

        self.parquet = sources.parquet(f"{path}.parquet")
        self.arrow = sources.arrow_ipc(f"{path}.arrow")

    def time_parquet_500000(self, path):
        for _ in self.parquet:
            pass

    def time_arrow_500000(self, path):
        for _ in self.arrow:
            pass
