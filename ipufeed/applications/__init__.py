"""Programs in files: compiled once, called in any process without their Python code.

    compiling.py    func --tracing.py--> Application --file.py--> program.poplar_exec
    runtime.py      program.poplar_exec --program.py--> Engine --calls--> results
    exporting.py    the same in a SavedModel

Source: Graphcore's application_compile_op, embedded_runtime and serving, whose names these
are. Poplar's engine is not used: the file has the graph, and XLA's code next to it.

Uses executable, device, ops, parallel and queues.
"""
