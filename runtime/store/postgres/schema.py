"""The tables in PostgreSQL, as a numbered list of steps that only grows.

They have the names and columns of `store.migrations`, so that statements are written once. What differs:

- `events` is partitioned by session, so that no index and no vacuum works on the whole record.
- No foreign keys: each row that refers to a session would lock that session's row, in each commit. The ledger
  writes only keys that it has read in the same transaction.
- Texts are compared byte by byte (`collate "C"`), as in SQLite, whatever the database's own order is.
- Words are indexed as `tsvector` by a configuration that knows no stop words.

The table `callboard` says how many steps a database has had, and which release took the last one.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ...errors import StorageError
from ...identity import VERSION

EVENT_PARTITIONS = 16
"""Small enough that a commit of one session opens one, and enough for tens of millions of sessions each."""

LOCK = 0x63616C6C
"""The advisory lock of migrations, `call` in ASCII. `LOCK + 1` is that of the one node that writes."""
NODE_LOCKS = LOCK + 2
"""With the hash of its name behind it, the lock that the writing connection of a node has, by which others find that."""

_TABLES = """
create table sessions (
  id bigint generated always as identity primary key,
  session_id text not null unique,
  title text not null,
  agent text not null,
  kind text not null,
  workspace text not null,
  model text,
  parent_id text,
  message_count bigint not null,
  last_message_preview text not null,
  is_active integer not null,
  head_seq bigint not null,
  last_event bigint not null,
  created_at_ms bigint not null,
  updated_at_ms bigint not null,
  deleted_at_ms bigint,
  is_tainted integer not null default 0,
  has_private integer not null default 0,
  parent_call_id text not null default '',
  is_detached integer not null default 0,
  runs_apart integer not null default 0,
  budget text,
  is_named integer not null default 0,
  forked_from text not null default ''
) with (fillfactor = 80);
create index sessions_idle on sessions (last_event) where is_active = 0;
create index sessions_by_workspace on sessions (workspace, last_event) where is_active = 0;
create index sessions_unused on sessions (updated_at_ms)
  where is_active = 0 and deleted_at_ms is null and parent_id is null;
create index sessions_detached on sessions (id) where is_detached = 1;
create index sessions_deleted on sessions (deleted_at_ms) where deleted_at_ms is not null;
create index sessions_deleted_latest on sessions (last_event) where deleted_at_ms is not null;
create index sessions_by_parent on sessions (parent_id) where parent_id is not null;

create sequence event_ids;
create table events (
  id bigint not null default nextval('event_ids'),
  session bigint not null,
  seq bigint not null,
  at_ms bigint not null,
  event bytea not null,
  checksum bigint,
  primary key (session, seq)
) partition by hash (session);
create index events_by_id on events using brin (id);

create table turns (
  id bigint generated always as identity primary key,
  session bigint not null,
  turn_id text not null,
  started_at_ms bigint not null,
  ended_at_ms bigint,
  is_suspended integer not null default 0,
  ran_ms bigint not null default 0,
  resumed_at_ms bigint,
  failed_calls bigint not null default 0,
  unique (session, turn_id)
);
create index turns_open on turns (session) where ended_at_ms is null;

create table messages (
  id bigint generated always as identity primary key,
  session bigint not null,
  position bigint not null,
  message_id text not null,
  type text not null,
  content text not null,
  created_at_ms bigint not null,
  turn_id text,
  thinking text,
  call_id text,
  input_tokens bigint,
  output_tokens bigint,
  model text,
  provider text,
  duration_ms bigint,
  is_set_aside integer not null default 0,
  stop_reason text,
  cached_tokens bigint,
  cache_write_tokens bigint,
  is_deleted integer not null default 0,
  unique (session, position)
);
create index messages_deleted on messages (session) where is_deleted = 1;

create table tool_calls (
  id bigint generated always as identity primary key,
  session bigint not null,
  call_id text not null,
  turn_id text not null,
  name text not null,
  status text not null,
  arguments text not null,
  result text,
  display text not null,
  proposed_at_ms bigint not null,
  started_at_ms bigint,
  finished_at_ms bigint,
  duration_ms bigint,
  finished_seq bigint,
  unique (session, call_id)
);

create table usage (
  id bigint generated always as identity primary key,
  session bigint not null,
  turn_id text not null,
  message_id text not null,
  provider text not null,
  model text not null,
  input_tokens bigint,
  output_tokens bigint,
  cached_tokens bigint,
  reasoning_tokens bigint,
  created_at_ms bigint not null,
  cache_write_tokens bigint,
  estimated_input bigint,
  estimated_output bigint
);
create index usage_by_session on usage (session);
create table usage_days (day bigint primary key, first_id bigint not null);
create function usage_of_a_day() returns trigger language plpgsql as $$
begin
  if not exists (select 1 from usage_days
      where day = new.created_at_ms / 86400000 and first_id <= new.id) then
    insert into usage_days values (new.created_at_ms / 86400000, new.id)
      on conflict (day) do update set first_id = least(usage_days.first_id, excluded.first_id);
  end if;
  return null;
end $$;
create trigger usage_of_a_day after insert on usage
  for each row execute function usage_of_a_day();

create table approvals (
  id bigint generated always as identity primary key,
  session bigint not null,
  approval_id text not null,
  turn_id text not null,
  call_id text not null,
  digest text not null,
  state text not null,
  asked_seq bigint not null,
  answered_seq bigint,
  asked_at_ms bigint not null,
  ends_at_ms bigint,
  is_deferred integer not null default 0,
  unique (approval_id, session)
);
create index approvals_open on approvals (session) where state in ('waiting', 'allowed');
create index approvals_by_session on approvals (session);

create table grants (
  id bigint generated always as identity primary key,
  session bigint not null,
  grant_id text not null,
  scope text not null,
  turn_id text not null,
  given_seq bigint not null,
  revoked_at_ms bigint,
  unique (grant_id, session)
);
create index grants_by_session on grants (session);
create index grants_lasting on grants (id) where revoked_at_ms is null and scope <> 'turn';

create table inputs (
  id bigint generated always as identity primary key,
  session bigint not null,
  input_id text not null,
  source text not null,
  call_id text,
  approval_id text,
  turn_id text,
  unique (session, input_id)
);

create table marked_files (path text primary key);

create table memories (
  id bigint generated always as identity primary key,
  session bigint not null,
  memory_id text not null unique,
  agent text not null,
  stored_seq bigint not null,
  is_untrusted integer not null
);
create index memories_by_agent on memories (agent);
create index memories_by_session on memories (session);

create table meta (key text primary key, value text not null);
insert into meta values ('epoch', replace(gen_random_uuid()::text, '-', ''));

create table topic_log (
  id bigint generated always as identity primary key,
  topic text not null,
  session bigint not null,
  seq bigint not null
);

create table purged (
  id bigint primary key,
  session_id text not null,
  agent text not null,
  seq bigint not null,
  at_ms bigint not null,
  event bytea not null
);

create table requests (
  id bigint generated always as identity primary key,
  sender text not null,
  method text not null,
  key text not null,
  digest text not null,
  session bigint not null,
  seq bigint not null,
  unique (sender, key, method)
);

create text search dictionary callboard_stem (template = snowball, language = english);
create text search configuration callboard (copy = simple);
alter text search configuration callboard
  alter mapping for asciiword, word, numword with callboard_stem;
create table message_words (rowid bigint primary key, words tsvector not null);
create index message_words_words on message_words using gin (words);
create table memory_words (rowid bigint primary key, words tsvector not null);
create index memory_words_words on memory_words using gin (words);

-- Ends a commit that was sent as one, where it is not as its sender took it to be.
create function as_expected(seen bigint, wanted bigint) returns bigint language plpgsql as $$
begin
  if seen is distinct from wanted then
    raise exception 'expected % rows, found %', wanted, seen using errcode = 'CB001';
  end if;
  return seen;
end $$;
"""


_TEXT_COLUMN = re.compile(r"((?:^  |\()\w+) text(?= |,|$)", re.MULTILINE)
_COLLATED = r'\1 text collate "C"'


def _first() -> str:
    parts = "\n".join(
        f"create table events_{number} partition of events"
        f" for values with (modulus {EVENT_PARTITIONS}, remainder {number});"
        for number in range(EVENT_PARTITIONS)
    )
    return _TEXT_COLUMN.sub(_COLLATED, _TABLES) + parts


CLUSTER = """
create table cluster (id integer primary key, generation bigint not null);
create table nodes (
  node_id text primary key,
  term bigint not null,
  state text not null,
  url text not null,
  version text not null,
  capacity integer not null,
  roots text not null,
  started_at_ms bigint not null,
  lease_until_ms bigint not null,
  changed bigint not null
-- Renewals change these few rows all the time; with room in the page no index is touched.
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create table owners (
  session_id text primary key,
  tree text not null,
  node_id text not null,
  term bigint not null,
  slot integer not null,
  root text not null
);
create index owners_by_slot on owners (slot, node_id);
create index owners_by_tree on owners (tree);
"""

"""The nodes of a cluster, and which of them owns a session: `runtime.cluster.registry` has the statements."""

TOLD = """
create function callboard_tell() returns trigger language plpgsql as $$
begin
  perform pg_notify('callboard_nodes', tg_argv[0]);
  return null;
end $$;
create trigger grants_told after insert or update or delete on grants
  for each statement execute function callboard_tell('grants');
create table schedule_times (name text primary key, until_ms bigint not null, entry text not null);
"""
"""Nodes hear of each change of the grants, in its own transaction; and which times of schedules are settled."""

TOKENS = """
create table tokens (digest text primary key, credential text not null);
create trigger tokens_told after insert or update or delete on tokens
  for each statement execute function callboard_tell('tokens');
"""
"""The tokens of a cluster by their digests; of a revoked one the rest is empty, and the row stays."""

FILES = """
-- A text of PostgreSQL has no NUL, and none is needed here.
alter table messages add column files text collate "C";
create index messages_with_files on messages (session) where files is not null;
with found as materialized (
  select session, seq, event from events
  where (substr(event, 1, 24) = '{"type":"input_accepted"'::bytea
    or substr(event, 1, 23) = '{"type":"call_finished"'::bytea)
  and position('"attachments":[{'::bytea in event) > 0
), told as materialized (
  select f.session, coalesce(x.event ->> 'input_id', 'result:' || (x.event ->> 'call_id')) as message_id,
    (select json_build_object('seq', f.seq, 'files', json_agg(json_build_object(
      'name', coalesce(a ->> 'name', ''), 'media_type', a ->> 'media_type',
      'size_bytes', octet_length(decode(a ->> 'data', 'base64')))))::text
    from json_array_elements(x.event -> 'attachments') a) as files
  from found f cross join lateral (select replace(convert_from(f.event, 'UTF8'), '\\u0000', '\\ufffd')::json as event) x
)
update messages set files = told.files from told
where messages.session = told.session and messages.message_id = told.message_id and messages.is_deleted = 0;
"""
"""Which files came with messages; what events of older releases had beside them is looked for."""

NODE_KEYS = """
create table node_keys (node_id text primary key, term bigint not null, key text not null);
"""
"""The key of each node's present term, by which other nodes know it: `runtime.cluster.tickets`."""

TURN_STARTS = """
alter table turns add column started_seq bigint;
with found as materialized (
  select session, seq, event from events where substr(event, 1, 22) = '{"type":"turn_started"'::bytea
)
update turns set started_seq = found.seq from found where turns.session = found.session
  and turns.turn_id = replace(convert_from(found.event, 'UTF8'), '\\u0000', '\\ufffd')::json ->> 'turn_id';
"""
"""Where turns begin on record."""

TIMELINE = """
alter table cluster add column timeline bigint not null default 0;
alter table cluster add column timeline_since_ms bigint not null default 0;
"""
"""Which timeline of PostgreSQL the nodes have seen last, and since when: a standby that takes over begins another."""

OWNERS_BY_ROOT = """
create index owners_by_root on owners (root) where root <> '';
"""
"""Which sessions wait for a root. Where nodes name no root, nothing is in it, and no commit pays for it."""

VIA = """
create table began as
  select id, via from (
    select sessions.id, case when found.event -> 'request' ->> 'sender' like 'schedule:%' then 'schedule'
      when found.event -> 'request' ->> 'sender' like 'hook:%' then 'hook' else found.event ->> 'via' end as via
    from sessions cross join lateral (
      select replace(convert_from(event, 'UTF8'), '\\u0000', '\\ufffd')::json as event from events
      where session = sessions.id and seq = 1 and substr(event, 1, 25) = '{"type":"session_created"'::bytea limit 1) found) told
  where via <> '';
alter table sessions add column via text not null default '';
update sessions set via = began.via from began where sessions.id = began.id;
drop table began;
"""
"""What began a session: looked for first, since others wait for the table from its change on. A node of an earlier release, beside this one for as long as an upgrade takes, says nothing of it."""

MIGRATIONS: tuple[str, ...] = (
    _first(),
    _TEXT_COLUMN.sub(_COLLATED, CLUSTER),
    _TEXT_COLUMN.sub(_COLLATED, TOLD),
    _TEXT_COLUMN.sub(_COLLATED, TOKENS),
    FILES,
    _TEXT_COLUMN.sub(_COLLATED, NODE_KEYS),
    TURN_STARTS,
    TIMELINE,
    OWNERS_BY_ROOT,
    _TEXT_COLUMN.sub(_COLLATED, VIA),
)
"""Step N brings a database from version N-1 to N."""

NODES_FORMAT = 2
"""From here on a database has `nodes` and `owners` (`CLUSTER`), which is all that a look at a cluster reads."""
DRAIN_FORMAT = MIGRATIONS.index(TIMELINE) + 1
"""From here on all is there that a change of a node writes."""

TIMELINE_NOW = "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint"
"""The timeline that the server writes."""

_VERSION_TABLE = (
    "create table if not exists callboard"
    " (version integer not null, release text not null, at timestamptz not null default now())"
)


class Version(NamedTuple):
    """How many steps a database has had, and which release of callboard took the last one."""

    steps: int
    release: str


def version_of(connection: Any) -> Version | None:
    """Return the version of a database, or `None` if it has no tables of callboard."""
    if connection.execute("select to_regclass('callboard')").fetchone()[0] is None:
        return None
    row = connection.execute("select version, release from callboard").fetchone()
    return None if row is None else Version(*row)


def check_version(found: Version | None, name: str, *, steps: int = len(MIGRATIONS)) -> None:
    """Raise `StorageError` if a database was migrated by a newer release, or not at all."""
    if found is None:
        raise StorageError(
            f"{name} has no store of callboard yet. `callboard serve --store …` makes one there."
        )
    if found.steps > steps:
        raise StorageError(
            f"{name} has format {found.steps}, written by callboard {found.release}; this one knows format "
            f"{steps}. Install callboard {found.release} or later here. Nothing was changed."
        )


def migrate(connection: Any, name: str, *, steps: tuple[str, ...] = MIGRATIONS) -> tuple[int, int]:
    """Bring a database up to date, wholly or not at all; return the versions before and after.

    One node does it, and others that start meanwhile wait for it.

    Args:
        connection: A connection of psycopg outside a transaction.
        name: How errors call the database.
        steps: The whole list.
    """
    with connection.transaction():
        # The rows of a million sessions take longer than any query may.
        connection.execute("set local statement_timeout = 0")
        connection.execute("select pg_advisory_xact_lock($1)", (LOCK,))
        found = version_of(connection)
        before = found.steps if found is not None else 0
        if found is not None:
            check_version(found, name, steps=len(steps))
        if before == len(steps):
            return before, before
        for step in steps[before:]:
            connection.execute(step)
        connection.execute(_VERSION_TABLE)
        connection.execute("delete from callboard")
        connection.execute(
            "insert into callboard (version, release) values ($1, $2)", (len(steps), VERSION)
        )
    return before, len(steps)
