"""Applications: programs in files, compiled once, called without their Python code.

    compiling.py    func --tracing.py--> Application --file.py--> program.poplar_exec
    runtime.py      program.poplar_exec --program.py--> Engine --calls--> results
    exporting.py    the same in a SavedModel

Source: names and arguments of Graphcore's application_compile_op, embedded_runtime and
serving. The file has the graph and XLA's code instead of code for Poplar's engine.

Uses ipufeed.device, ipufeed.executable, ipufeed.ops, ipufeed.parallel and
ipufeed.queues.
"""
