"""The messages of a session as they are read: their rows, with what their calls have by now."""

from __future__ import annotations

# The call's own columns come from its row, so that a `tool_call` shows its present state and no
# large text is kept twice.
SELECT_MESSAGES = """
select m.message_id, s.session_id, m.position, m.type,
  iif(m.type = 'tool_result', c.display, m.content),
  m.created_at_ms, m.turn_id, m.thinking, m.call_id, c.name,
  iif(m.type = 'tool_call', c.arguments, null),
  iif(m.type = 'tool_result', c.result, null),
  c.status, c.duration_ms,
  m.input_tokens, m.output_tokens, m.model, m.provider, m.duration_ms, m.is_set_aside
from messages m
join sessions s on s.id = m.session
left join tool_calls c on m.call_id is not null and c.session = m.session and c.call_id = m.call_id
where s.session_id = ? and m.position > ?
order by m.position limit ?
"""
