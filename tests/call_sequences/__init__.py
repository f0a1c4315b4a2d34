"""Random sequences of public calls of the queues, checked against lists.

generate.py --calls--> world.py --> the queues themselves
                                --> model.py: what is left of a dataset, which results come
            checking.py compares --> FaultError
            running.py leaves out calls --> a script that shows the fault

The model says what each call must give: exactly these results, in order, or an error of
one of these types that names the queue.
"""
