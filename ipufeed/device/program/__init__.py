"""Programs of a simulated IPU: compile, loops, scopes, strategy, steps, the clock.

    compiler       ipu_compiler.compile: a Python function as one program
    strategy       IPUStrategy: TensorFlow 2's functions as programs
    executor       set_executor: XLA compiles programs, or TensorFlow runs them op by op
    outside_...    ops of a program on the host; the executor then runs the program
    *loop*         loops of a program, and TensorFlow's loops in it
    scopes, sh...  the device and the IPU of ops
    host_...       code and iterators that stay on the host in a strategy's scope
    steps, clock   steps of a known length; the host's clock

Of a graph without `compile` the native core makes programs (cc/xla/clusters):
clusters.h has the steps, compilable.h decides which ops can be part of one.

Uses log, system and ipufeed.queues.
"""
