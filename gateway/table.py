"""All methods of the wire, in the order of the document."""

from __future__ import annotations

from . import (
    agent_methods,
    approval_methods,
    call_methods,
    config_methods,
    key_methods,
    memory_methods,
    policy_methods,
    provider_methods,
    question_methods,
    rerun_methods,
    runtime_methods,
    session_file_methods,
    session_list_methods,
    session_methods,
    store_methods,
    token_methods,
    topic_methods,
    usage_methods,
    workspace_methods,
)
from .methods import MethodTable

_TABLES = (
    session_methods.methods,
    rerun_methods.methods,
    session_list_methods.methods,
    session_file_methods.methods,
    topic_methods.methods,
    workspace_methods.methods,
    usage_methods.methods,
    call_methods.methods,
    approval_methods.methods,
    policy_methods.methods,
    question_methods.methods,
    memory_methods.methods,
    agent_methods.methods,
    provider_methods.methods,
    key_methods.methods,
    runtime_methods.methods,
    config_methods.methods,
    token_methods.methods,
    store_methods.methods,
)


def all_methods() -> MethodTable:
    """What a client may call."""
    table = MethodTable()
    for each in _TABLES:
        table.merge(each)
    return table
