"""Standard streams, signals and child processes of the command; no TensorFlow.

    streams       stdout is for the JSON alone
    interrupts    Ctrl-C and SIGTERM during a measurement
    leave         the end of the process, whatever still runs
    child_process processes that run a module of ipufeed

Uses no other folder.
"""
