"""Web servers on this machine, answers of every bad kind, and networks that lead nowhere else.

`network_scenes` is a program that `namespaces` starts in an empty network; `good_test.pem` is the
certificate of its servers.
"""
