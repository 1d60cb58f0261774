"""What tests of tools work on: workspaces, repositories, and functions in a process of their own.

`workbench` calls a tool as the dispatcher does, `development_bench` those for development.
"""
