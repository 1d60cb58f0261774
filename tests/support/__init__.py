"""What several tests share; no test is in here.

Here are the stage of the flows, the scene of the actors, and what tests of many subjects use; what
is of one subject is in a folder of its name. `waits` waits for other tasks, while `waiting` is a
turn that waits for a person. `environment` is for processes that import from here.
"""
