SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE FUNCTION public.as_expected(seen bigint, wanted bigint) RETURNS bigint
    LANGUAGE plpgsql
    AS $$
begin
  if seen is distinct from wanted then
    raise exception 'expected % rows, found %', wanted, seen using errcode = 'CB001';
  end if;
  return seen;
end $$;
CREATE FUNCTION public.usage_of_a_day() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  if not exists (select 1 from usage_days
      where day = new.created_at_ms / 86400000 and first_id <= new.id) then
    insert into usage_days values (new.created_at_ms / 86400000, new.id)
      on conflict (day) do update set first_id = least(usage_days.first_id, excluded.first_id);
  end if;
  return null;
end $$;
CREATE TEXT SEARCH DICTIONARY public.callboard_stem (
    TEMPLATE = pg_catalog.snowball,
    language = 'english' );
CREATE TEXT SEARCH CONFIGURATION public.callboard (
    PARSER = pg_catalog."default" );
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR asciiword WITH public.callboard_stem;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR word WITH public.callboard_stem;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR numword WITH public.callboard_stem;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR email WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR url WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR host WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR sfloat WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR version WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR hword_numpart WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR hword_part WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR hword_asciipart WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR numhword WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR asciihword WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR hword WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR url_path WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR file WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR "float" WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR "int" WITH simple;
ALTER TEXT SEARCH CONFIGURATION public.callboard
    ADD MAPPING FOR uint WITH simple;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.approvals (
    id bigint NOT NULL,
    session bigint NOT NULL,
    approval_id text NOT NULL COLLATE pg_catalog."C",
    turn_id text NOT NULL COLLATE pg_catalog."C",
    call_id text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    asked_seq bigint NOT NULL,
    answered_seq bigint,
    asked_at_ms bigint NOT NULL,
    ends_at_ms bigint,
    is_deferred integer DEFAULT 0 NOT NULL
);
ALTER TABLE public.approvals ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.approvals_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.callboard (
    version integer NOT NULL,
    release text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE public.cluster (
    id integer NOT NULL,
    generation bigint NOT NULL
);
CREATE SEQUENCE public.event_ids
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.events (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
)
PARTITION BY HASH (session);
CREATE TABLE public.events_0 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_1 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_10 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_11 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_12 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_13 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_14 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_15 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_2 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_3 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_4 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_5 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_6 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_7 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_8 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.events_9 (
    id bigint DEFAULT nextval('public.event_ids'::regclass) NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL,
    checksum bigint
);
CREATE TABLE public.grants (
    id bigint NOT NULL,
    session bigint NOT NULL,
    grant_id text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    turn_id text NOT NULL COLLATE pg_catalog."C",
    given_seq bigint NOT NULL,
    revoked_at_ms bigint
);
ALTER TABLE public.grants ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.grants_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.inputs (
    id bigint NOT NULL,
    session bigint NOT NULL,
    input_id text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    call_id text COLLATE pg_catalog."C",
    approval_id text COLLATE pg_catalog."C",
    turn_id text COLLATE pg_catalog."C"
);
ALTER TABLE public.inputs ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.inputs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.marked_files (
    path text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.memories (
    id bigint NOT NULL,
    session bigint NOT NULL,
    memory_id text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL COLLATE pg_catalog."C",
    stored_seq bigint NOT NULL,
    is_untrusted integer NOT NULL
);
ALTER TABLE public.memories ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.memories_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.memory_words (
    rowid bigint NOT NULL,
    words tsvector NOT NULL
);
CREATE TABLE public.message_words (
    rowid bigint NOT NULL,
    words tsvector NOT NULL
);
CREATE TABLE public.messages (
    id bigint NOT NULL,
    session bigint NOT NULL,
    "position" bigint NOT NULL,
    message_id text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    content text NOT NULL COLLATE pg_catalog."C",
    created_at_ms bigint NOT NULL,
    turn_id text COLLATE pg_catalog."C",
    thinking text COLLATE pg_catalog."C",
    call_id text COLLATE pg_catalog."C",
    input_tokens bigint,
    output_tokens bigint,
    model text COLLATE pg_catalog."C",
    provider text COLLATE pg_catalog."C",
    duration_ms bigint,
    is_set_aside integer DEFAULT 0 NOT NULL,
    stop_reason text COLLATE pg_catalog."C",
    cached_tokens bigint,
    cache_write_tokens bigint,
    is_deleted integer DEFAULT 0 NOT NULL
);
ALTER TABLE public.messages ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.messages_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.meta (
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL
);
CREATE TABLE public.nodes (
    node_id text NOT NULL COLLATE pg_catalog."C",
    term bigint NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    url text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    capacity integer NOT NULL,
    roots text NOT NULL COLLATE pg_catalog."C",
    started_at_ms bigint NOT NULL,
    lease_until_ms bigint NOT NULL,
    changed bigint NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
CREATE TABLE public.owners (
    session_id text NOT NULL COLLATE pg_catalog."C",
    tree text NOT NULL COLLATE pg_catalog."C",
    node_id text NOT NULL COLLATE pg_catalog."C",
    term bigint NOT NULL,
    slot integer NOT NULL,
    root text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.purged (
    id bigint NOT NULL,
    session_id text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    event bytea NOT NULL
);
CREATE TABLE public.requests (
    id bigint NOT NULL,
    sender text NOT NULL COLLATE pg_catalog."C",
    method text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    session bigint NOT NULL,
    seq bigint NOT NULL
);
ALTER TABLE public.requests ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.requests_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions (
    id bigint NOT NULL,
    session_id text NOT NULL COLLATE pg_catalog."C",
    title text NOT NULL COLLATE pg_catalog."C",
    agent text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    workspace text NOT NULL COLLATE pg_catalog."C",
    model text COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    message_count bigint NOT NULL,
    last_message_preview text NOT NULL COLLATE pg_catalog."C",
    is_active integer NOT NULL,
    head_seq bigint NOT NULL,
    last_event bigint NOT NULL,
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    deleted_at_ms bigint,
    is_tainted integer DEFAULT 0 NOT NULL,
    has_private integer DEFAULT 0 NOT NULL,
    parent_call_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    is_detached integer DEFAULT 0 NOT NULL,
    runs_apart integer DEFAULT 0 NOT NULL,
    budget text COLLATE pg_catalog."C",
    is_named integer DEFAULT 0 NOT NULL,
    forked_from text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
)
WITH (fillfactor='80');
ALTER TABLE public.sessions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.sessions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.tool_calls (
    id bigint NOT NULL,
    session bigint NOT NULL,
    call_id text NOT NULL COLLATE pg_catalog."C",
    turn_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    arguments text NOT NULL COLLATE pg_catalog."C",
    result text COLLATE pg_catalog."C",
    display text NOT NULL COLLATE pg_catalog."C",
    proposed_at_ms bigint NOT NULL,
    started_at_ms bigint,
    finished_at_ms bigint,
    duration_ms bigint,
    finished_seq bigint
);
ALTER TABLE public.tool_calls ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.tool_calls_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.topic_log (
    id bigint NOT NULL,
    topic text NOT NULL COLLATE pg_catalog."C",
    session bigint NOT NULL,
    seq bigint NOT NULL
);
ALTER TABLE public.topic_log ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.topic_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.turns (
    id bigint NOT NULL,
    session bigint NOT NULL,
    turn_id text NOT NULL COLLATE pg_catalog."C",
    started_at_ms bigint NOT NULL,
    ended_at_ms bigint,
    is_suspended integer DEFAULT 0 NOT NULL,
    ran_ms bigint DEFAULT 0 NOT NULL,
    resumed_at_ms bigint,
    failed_calls bigint DEFAULT 0 NOT NULL
);
ALTER TABLE public.turns ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.turns_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.usage (
    id bigint NOT NULL,
    session bigint NOT NULL,
    turn_id text NOT NULL COLLATE pg_catalog."C",
    message_id text NOT NULL COLLATE pg_catalog."C",
    provider text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    input_tokens bigint,
    output_tokens bigint,
    cached_tokens bigint,
    reasoning_tokens bigint,
    created_at_ms bigint NOT NULL,
    cache_write_tokens bigint,
    estimated_input bigint,
    estimated_output bigint
);
CREATE TABLE public.usage_days (
    day bigint NOT NULL,
    first_id bigint NOT NULL
);
ALTER TABLE public.usage ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.usage_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_0 FOR VALUES WITH (modulus 16, remainder 0);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_1 FOR VALUES WITH (modulus 16, remainder 1);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_10 FOR VALUES WITH (modulus 16, remainder 10);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_11 FOR VALUES WITH (modulus 16, remainder 11);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_12 FOR VALUES WITH (modulus 16, remainder 12);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_13 FOR VALUES WITH (modulus 16, remainder 13);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_14 FOR VALUES WITH (modulus 16, remainder 14);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_15 FOR VALUES WITH (modulus 16, remainder 15);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_2 FOR VALUES WITH (modulus 16, remainder 2);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_3 FOR VALUES WITH (modulus 16, remainder 3);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_4 FOR VALUES WITH (modulus 16, remainder 4);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_5 FOR VALUES WITH (modulus 16, remainder 5);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_6 FOR VALUES WITH (modulus 16, remainder 6);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_7 FOR VALUES WITH (modulus 16, remainder 7);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_8 FOR VALUES WITH (modulus 16, remainder 8);
ALTER TABLE ONLY public.events ATTACH PARTITION public.events_9 FOR VALUES WITH (modulus 16, remainder 9);
INSERT INTO public.callboard VALUES (2, '0.1.0', '2026-11-29 06:55:01.693499+00');
INSERT INTO public.cluster VALUES (1, 1);
INSERT INTO public.events_10 VALUES (10, 2, 1, 1795935302276, '\x7b2274797065223a2273657373696f6e5f63726561746564222c226167656e74223a2267656e6572616c222c22776f726b7370616365223a222f7661722f746d70227d', 2951842402);
INSERT INTO public.events_10 VALUES (11, 2, 2, 1795935302286, '\x7b2274797065223a22696e7075745f6163636570746564222c22696e7075745f6964223a22696e7075745f37656a64306333627176396a6a65677a30687174222c2274657874223a224f746865723f227d', 3499796119);
INSERT INTO public.events_10 VALUES (12, 2, 3, 1795935302286, '\x7b2274797065223a227475726e5f73746172746564222c227475726e5f6964223a227475726e5f34797235647a35307330616363717876656e6778222c22696e7075745f696473223a5b22696e7075745f37656a64306333627176396a6a65677a30687174225d2c2270726f7669646572223a226c6f63616c222c226d6f64656c223a2253637269707465644d6f64656c222c22706f6c696379223a226175746f227d', 3440769479);
INSERT INTO public.events_10 VALUES (13, 2, 4, 1795935302289, '\x7b2274797065223a226d6573736167655f636f6d706c65746564222c227475726e5f6964223a227475726e5f34797235647a35307330616363717876656e6778222c226d6573736167655f6964223a226d6573736167655f3236716d7131386b6761626b306d6a7a38733731222c227061727473223a5b7b2274797065223a2274657874222c2274657874223a22416e7377657220322e227d5d2c2270726f7669646572223a226c6f63616c222c226d6f64656c223a2253637269707465644d6f64656c222c226469616c656374223a226c6f63616c222c2273746f705f726561736f6e223a22656e64222c227573616765223a7b2274797065223a227573616765222c22696e7075745f746f6b656e73223a31302c226f75747075745f746f6b656e73223a352c226361636865645f746f6b656e73223a302c22726561736f6e696e675f746f6b656e73223a302c2263616368655f77726974655f746f6b656e73223a6e756c6c7d7d', 254712739);
INSERT INTO public.events_10 VALUES (14, 2, 5, 1795935302289, '\x7b2274797065223a227475726e5f656e646564222c227475726e5f6964223a227475726e5f34797235647a35307330616363717876656e6778222c226f7574636f6d65223a22616e737765726564222c226475726174696f6e5f6d73223a337d', 3547354915);
INSERT INTO public.events_8 VALUES (1, 1, 1, 1795935301990, '\x7b2274797065223a2273657373696f6e5f63726561746564222c226167656e74223a2267656e6572616c222c22776f726b7370616365223a222f7661722f746d70227d', 360542432);
INSERT INTO public.events_8 VALUES (2, 1, 2, 1795935302215, '\x7b2274797065223a22696e7075745f6163636570746564222c22696e7075745f6964223a22696e7075745f67636a6d6d33346235656838686a367274767176222c2274657874223a225175657374696f6e20303f227d', 2686090209);
INSERT INTO public.events_8 VALUES (3, 1, 3, 1795935302215, '\x7b2274797065223a227475726e5f73746172746564222c227475726e5f6964223a227475726e5f636a653435616d65626468653278787a73383738222c22696e7075745f696473223a5b22696e7075745f67636a6d6d33346235656838686a367274767176225d2c2270726f7669646572223a226c6f63616c222c226d6f64656c223a2253637269707465644d6f64656c222c22706f6c696379223a226175746f227d', 3146431213);
INSERT INTO public.events_8 VALUES (4, 1, 4, 1795935302234, '\x7b2274797065223a226d6573736167655f636f6d706c65746564222c227475726e5f6964223a227475726e5f636a653435616d65626468653278787a73383738222c226d6573736167655f6964223a226d6573736167655f39657338776535726830677376736a6864797430222c227061727473223a5b7b2274797065223a2274657874222c2274657874223a22416e7377657220302e227d5d2c2270726f7669646572223a226c6f63616c222c226d6f64656c223a2253637269707465644d6f64656c222c226469616c656374223a226c6f63616c222c2273746f705f726561736f6e223a22656e64222c227573616765223a7b2274797065223a227573616765222c22696e7075745f746f6b656e73223a31302c226f75747075745f746f6b656e73223a352c226361636865645f746f6b656e73223a302c22726561736f6e696e675f746f6b656e73223a302c2263616368655f77726974655f746f6b656e73223a6e756c6c7d2c226475726174696f6e5f6d73223a357d', 748786307);
INSERT INTO public.events_8 VALUES (5, 1, 5, 1795935302234, '\x7b2274797065223a227475726e5f656e646564222c227475726e5f6964223a227475726e5f636a653435616d65626468653278787a73383738222c226f7574636f6d65223a22616e737765726564222c226475726174696f6e5f6d73223a31317d', 1619096805);
INSERT INTO public.events_8 VALUES (6, 1, 6, 1795935302256, '\x7b2274797065223a22696e7075745f6163636570746564222c22696e7075745f6964223a22696e7075745f6a74313472706e72386e306870676a3861746873222c2274657874223a225175657374696f6e20313f227d', 1951424308);
INSERT INTO public.events_8 VALUES (7, 1, 7, 1795935302256, '\x7b2274797065223a227475726e5f73746172746564222c227475726e5f6964223a227475726e5f6467357a6668797873703834767977386167676b222c22696e7075745f696473223a5b22696e7075745f6a74313472706e72386e306870676a3861746873225d2c2270726f7669646572223a226c6f63616c222c226d6f64656c223a2253637269707465644d6f64656c222c22706f6c696379223a226175746f227d', 23673853);
INSERT INTO public.events_8 VALUES (8, 1, 8, 1795935302264, '\x7b2274797065223a226d6573736167655f636f6d706c65746564222c227475726e5f6964223a227475726e5f6467357a6668797873703834767977386167676b222c226d6573736167655f6964223a226d6573736167655f367279617367327a33767161716b666637326136222c227061727473223a5b7b2274797065223a2274657874222c2274657874223a22416e7377657220312e227d5d2c2270726f7669646572223a226c6f63616c222c226d6f64656c223a2253637269707465644d6f64656c222c226469616c656374223a226c6f63616c222c2273746f705f726561736f6e223a22656e64222c227573616765223a7b2274797065223a227573616765222c22696e7075745f746f6b656e73223a31302c226f75747075745f746f6b656e73223a352c226361636865645f746f6b656e73223a302c22726561736f6e696e675f746f6b656e73223a302c2263616368655f77726974655f746f6b656e73223a6e756c6c7d7d', 234008390);
INSERT INTO public.events_8 VALUES (9, 1, 9, 1795935302264, '\x7b2274797065223a227475726e5f656e646564222c227475726e5f6964223a227475726e5f6467357a6668797873703834767977386167676b222c226f7574636f6d65223a22616e737765726564222c226475726174696f6e5f6d73223a397d', 794820043);
INSERT INTO public.messages OVERRIDING SYSTEM VALUE VALUES (1, 1, 1, 'input_gcjmm34b5eh8hj6rtvqv', 'user', 'Question 0?', 1795935302215, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, 0);
INSERT INTO public.messages OVERRIDING SYSTEM VALUE VALUES (2, 1, 2, 'message_9es8we5rh0gsvsjhdyt0', 'assistant', 'Answer 0.', 1795935302234, 'turn_cje45amebdhe2xxzs878', NULL, NULL, 10, 5, 'ScriptedModel', 'local', 5, 0, 'end', 0, NULL, 0);
INSERT INTO public.messages OVERRIDING SYSTEM VALUE VALUES (3, 1, 3, 'input_jt14rpnr8n0hpgj8aths', 'user', 'Question 1?', 1795935302256, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, 0);
INSERT INTO public.messages OVERRIDING SYSTEM VALUE VALUES (4, 1, 4, 'message_6ryasg2z3vqaqkff72a6', 'assistant', 'Answer 1.', 1795935302264, 'turn_dg5zfhyxsp84vyw8aggk', NULL, NULL, 10, 5, 'ScriptedModel', 'local', 0, 0, 'end', 0, NULL, 0);
INSERT INTO public.messages OVERRIDING SYSTEM VALUE VALUES (5, 2, 1, 'input_7ejd0c3bqv9jjegz0hqt', 'user', 'Other?', 1795935302286, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, 0);
INSERT INTO public.messages OVERRIDING SYSTEM VALUE VALUES (6, 2, 2, 'message_26qmq18kgabk0mjz8s71', 'assistant', 'Answer 2.', 1795935302289, 'turn_4yr5dz50s0accqxvengx', NULL, NULL, 10, 5, 'ScriptedModel', 'local', 0, 0, 'end', 0, NULL, 0);
INSERT INTO public.meta VALUES ('epoch', '4e7e4a9969554ecd9b85f98de8db9d03');
INSERT INTO public.nodes VALUES ('old', 1, 'live', 'http://old', '0.1.0', 1, '[]', 1795935301970, 1795935303505, 1);
INSERT INTO public.owners VALUES ('session_3rvhp0d5fpkfq3q6h5f8', 'session_3rvhp0d5fpkfq3q6h5f8', 'old', 1, 815, '');
INSERT INTO public.owners VALUES ('session_wt3z9t0apbgvxb2ne7q6', 'session_wt3z9t0apbgvxb2ne7q6', 'old', 1, 830, '');
INSERT INTO public.sessions OVERRIDING SYSTEM VALUE VALUES (1, 'session_3rvhp0d5fpkfq3q6h5f8', 'Question 0?', 'general', 'main', '/var/tmp', NULL, NULL, 4, 'Answer 1.', 0, 9, 9, 1795935301990, 1795935302264, NULL, 0, 0, '', 0, 0, NULL, 0, '');
INSERT INTO public.sessions OVERRIDING SYSTEM VALUE VALUES (2, 'session_wt3z9t0apbgvxb2ne7q6', 'Other?', 'general', 'main', '/var/tmp', NULL, NULL, 2, 'Answer 2.', 0, 5, 14, 1795935302276, 1795935302289, NULL, 0, 0, '', 0, 0, NULL, 0, '');
INSERT INTO public.topic_log OVERRIDING SYSTEM VALUE VALUES (1, 'sessions', 1, 1);
INSERT INTO public.topic_log OVERRIDING SYSTEM VALUE VALUES (2, 'sessions', 1, 3);
INSERT INTO public.topic_log OVERRIDING SYSTEM VALUE VALUES (3, 'sessions', 1, 5);
INSERT INTO public.topic_log OVERRIDING SYSTEM VALUE VALUES (4, 'sessions', 1, 7);
INSERT INTO public.topic_log OVERRIDING SYSTEM VALUE VALUES (5, 'sessions', 1, 9);
INSERT INTO public.topic_log OVERRIDING SYSTEM VALUE VALUES (6, 'sessions', 2, 1);
INSERT INTO public.topic_log OVERRIDING SYSTEM VALUE VALUES (7, 'sessions', 2, 3);
INSERT INTO public.topic_log OVERRIDING SYSTEM VALUE VALUES (8, 'sessions', 2, 5);
INSERT INTO public.turns OVERRIDING SYSTEM VALUE VALUES (1, 1, 'turn_cje45amebdhe2xxzs878', 1795935302215, 1795935302234, 0, 11, NULL, 0);
INSERT INTO public.turns OVERRIDING SYSTEM VALUE VALUES (3, 1, 'turn_dg5zfhyxsp84vyw8aggk', 1795935302256, 1795935302264, 0, 9, NULL, 0);
INSERT INTO public.turns OVERRIDING SYSTEM VALUE VALUES (5, 2, 'turn_4yr5dz50s0accqxvengx', 1795935302286, 1795935302289, 0, 3, NULL, 0);
INSERT INTO public.usage OVERRIDING SYSTEM VALUE VALUES (1, 1, 'turn_cje45amebdhe2xxzs878', 'message_9es8we5rh0gsvsjhdyt0', 'local', 'ScriptedModel', 10, 5, 0, 0, 1795935302234, NULL, NULL, NULL);
INSERT INTO public.usage OVERRIDING SYSTEM VALUE VALUES (2, 1, 'turn_dg5zfhyxsp84vyw8aggk', 'message_6ryasg2z3vqaqkff72a6', 'local', 'ScriptedModel', 10, 5, 0, 0, 1795935302264, NULL, NULL, NULL);
INSERT INTO public.usage OVERRIDING SYSTEM VALUE VALUES (3, 2, 'turn_4yr5dz50s0accqxvengx', 'message_26qmq18kgabk0mjz8s71', 'local', 'ScriptedModel', 10, 5, 0, 0, 1795935302289, NULL, NULL, NULL);
INSERT INTO public.usage_days VALUES (20786, 1);
SELECT pg_catalog.setval('public.approvals_id_seq', 1, false);
SELECT pg_catalog.setval('public.event_ids', 14, true);
SELECT pg_catalog.setval('public.grants_id_seq', 1, false);
SELECT pg_catalog.setval('public.inputs_id_seq', 3, true);
SELECT pg_catalog.setval('public.memories_id_seq', 1, false);
SELECT pg_catalog.setval('public.messages_id_seq', 6, true);
SELECT pg_catalog.setval('public.requests_id_seq', 1, false);
SELECT pg_catalog.setval('public.sessions_id_seq', 2, true);
SELECT pg_catalog.setval('public.tool_calls_id_seq', 1, false);
SELECT pg_catalog.setval('public.topic_log_id_seq', 8, true);
SELECT pg_catalog.setval('public.turns_id_seq', 6, true);
SELECT pg_catalog.setval('public.usage_id_seq', 3, true);
ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_approval_id_session_key UNIQUE (approval_id, session);
ALTER TABLE ONLY public.approvals
    ADD CONSTRAINT approvals_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.cluster
    ADD CONSTRAINT cluster_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_0
    ADD CONSTRAINT events_0_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_10
    ADD CONSTRAINT events_10_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_11
    ADD CONSTRAINT events_11_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_12
    ADD CONSTRAINT events_12_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_13
    ADD CONSTRAINT events_13_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_14
    ADD CONSTRAINT events_14_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_15
    ADD CONSTRAINT events_15_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_1
    ADD CONSTRAINT events_1_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_2
    ADD CONSTRAINT events_2_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_3
    ADD CONSTRAINT events_3_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_4
    ADD CONSTRAINT events_4_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_5
    ADD CONSTRAINT events_5_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_6
    ADD CONSTRAINT events_6_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_7
    ADD CONSTRAINT events_7_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_8
    ADD CONSTRAINT events_8_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.events_9
    ADD CONSTRAINT events_9_pkey PRIMARY KEY (session, seq);
ALTER TABLE ONLY public.grants
    ADD CONSTRAINT grants_grant_id_session_key UNIQUE (grant_id, session);
ALTER TABLE ONLY public.grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.inputs
    ADD CONSTRAINT inputs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.inputs
    ADD CONSTRAINT inputs_session_input_id_key UNIQUE (session, input_id);
ALTER TABLE ONLY public.marked_files
    ADD CONSTRAINT marked_files_pkey PRIMARY KEY (path);
ALTER TABLE ONLY public.memories
    ADD CONSTRAINT memories_memory_id_key UNIQUE (memory_id);
ALTER TABLE ONLY public.memories
    ADD CONSTRAINT memories_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.memory_words
    ADD CONSTRAINT memory_words_pkey PRIMARY KEY (rowid);
ALTER TABLE ONLY public.message_words
    ADD CONSTRAINT message_words_pkey PRIMARY KEY (rowid);
ALTER TABLE ONLY public.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.messages
    ADD CONSTRAINT messages_session_position_key UNIQUE (session, "position");
ALTER TABLE ONLY public.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (node_id);
ALTER TABLE ONLY public.owners
    ADD CONSTRAINT owners_pkey PRIMARY KEY (session_id);
ALTER TABLE ONLY public.purged
    ADD CONSTRAINT purged_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.requests
    ADD CONSTRAINT requests_sender_key_method_key UNIQUE (sender, key, method);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_session_id_key UNIQUE (session_id);
ALTER TABLE ONLY public.tool_calls
    ADD CONSTRAINT tool_calls_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.tool_calls
    ADD CONSTRAINT tool_calls_session_call_id_key UNIQUE (session, call_id);
ALTER TABLE ONLY public.topic_log
    ADD CONSTRAINT topic_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.turns
    ADD CONSTRAINT turns_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.turns
    ADD CONSTRAINT turns_session_turn_id_key UNIQUE (session, turn_id);
ALTER TABLE ONLY public.usage_days
    ADD CONSTRAINT usage_days_pkey PRIMARY KEY (day);
ALTER TABLE ONLY public.usage
    ADD CONSTRAINT usage_pkey PRIMARY KEY (id);
CREATE INDEX approvals_by_session ON public.approvals USING btree (session);
CREATE INDEX approvals_open ON public.approvals USING btree (session) WHERE (state = ANY (ARRAY['waiting'::text, 'allowed'::text]));
CREATE INDEX events_by_id ON ONLY public.events USING brin (id);
CREATE INDEX events_0_id_idx ON public.events_0 USING brin (id);
CREATE INDEX events_10_id_idx ON public.events_10 USING brin (id);
CREATE INDEX events_11_id_idx ON public.events_11 USING brin (id);
CREATE INDEX events_12_id_idx ON public.events_12 USING brin (id);
CREATE INDEX events_13_id_idx ON public.events_13 USING brin (id);
CREATE INDEX events_14_id_idx ON public.events_14 USING brin (id);
CREATE INDEX events_15_id_idx ON public.events_15 USING brin (id);
CREATE INDEX events_1_id_idx ON public.events_1 USING brin (id);
CREATE INDEX events_2_id_idx ON public.events_2 USING brin (id);
CREATE INDEX events_3_id_idx ON public.events_3 USING brin (id);
CREATE INDEX events_4_id_idx ON public.events_4 USING brin (id);
CREATE INDEX events_5_id_idx ON public.events_5 USING brin (id);
CREATE INDEX events_6_id_idx ON public.events_6 USING brin (id);
CREATE INDEX events_7_id_idx ON public.events_7 USING brin (id);
CREATE INDEX events_8_id_idx ON public.events_8 USING brin (id);
CREATE INDEX events_9_id_idx ON public.events_9 USING brin (id);
CREATE INDEX grants_by_session ON public.grants USING btree (session);
CREATE INDEX grants_lasting ON public.grants USING btree (id) WHERE ((revoked_at_ms IS NULL) AND (scope <> 'turn'::text));
CREATE INDEX memories_by_agent ON public.memories USING btree (agent);
CREATE INDEX memories_by_session ON public.memories USING btree (session);
CREATE INDEX memory_words_words ON public.memory_words USING gin (words);
CREATE INDEX message_words_words ON public.message_words USING gin (words);
CREATE INDEX messages_deleted ON public.messages USING btree (session) WHERE (is_deleted = 1);
CREATE INDEX owners_by_slot ON public.owners USING btree (slot, node_id);
CREATE INDEX owners_by_tree ON public.owners USING btree (tree);
CREATE INDEX sessions_by_parent ON public.sessions USING btree (parent_id) WHERE (parent_id IS NOT NULL);
CREATE INDEX sessions_by_workspace ON public.sessions USING btree (workspace, last_event) WHERE (is_active = 0);
CREATE INDEX sessions_deleted ON public.sessions USING btree (deleted_at_ms) WHERE (deleted_at_ms IS NOT NULL);
CREATE INDEX sessions_deleted_latest ON public.sessions USING btree (last_event) WHERE (deleted_at_ms IS NOT NULL);
CREATE INDEX sessions_detached ON public.sessions USING btree (id) WHERE (is_detached = 1);
CREATE INDEX sessions_idle ON public.sessions USING btree (last_event) WHERE (is_active = 0);
CREATE INDEX sessions_unused ON public.sessions USING btree (updated_at_ms) WHERE ((is_active = 0) AND (deleted_at_ms IS NULL) AND (parent_id IS NULL));
CREATE INDEX turns_open ON public.turns USING btree (session) WHERE (ended_at_ms IS NULL);
CREATE INDEX usage_by_session ON public.usage USING btree (session);
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_0_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_0_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_10_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_10_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_11_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_11_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_12_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_12_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_13_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_13_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_14_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_14_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_15_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_15_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_1_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_1_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_2_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_2_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_3_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_3_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_4_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_4_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_5_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_5_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_6_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_6_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_7_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_7_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_8_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_8_pkey;
ALTER INDEX public.events_by_id ATTACH PARTITION public.events_9_id_idx;
ALTER INDEX public.events_pkey ATTACH PARTITION public.events_9_pkey;
CREATE TRIGGER usage_of_a_day AFTER INSERT ON public.usage FOR EACH ROW EXECUTE FUNCTION public.usage_of_a_day();
