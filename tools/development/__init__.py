"""Tools for developers: git, tests, formatters and packages, all of them programs in the sandbox.

A repository, a test suite and a package may have been written by anybody: what they would run by
their own configuration is disarmed where a tool only looks, and runs nowhere but in the sandbox.
"""
