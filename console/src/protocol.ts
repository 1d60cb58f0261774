/* Written by scripts/types.js from `callboard protocol --json-schema`: do not edit. */

/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Topic".
 */
export type Topic = ("approvals" | "runtime" | "sessions")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionKind".
 */
export type SessionKind = ("branch" | "main" | "worker")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "CallStatus".
 */
export type CallStatus = ("cancelled" | "deferred" | "denied" | "error" | "interrupted" | "pending" | "running" | "success" | "timeout" | "waiting")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ThinkingEffort".
 */
export type ThinkingEffort = ("high" | "low" | "medium" | "off")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Preset".
 */
export type Preset = ("auto" | "balanced" | "strict")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Tier".
 */
export type Tier = ("elevated" | "read_only" | "system" | "workspace")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Verdict".
 */
export type Verdict = ("allow" | "ask" | "deny")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ConnectionFault".
 */
export type ConnectionFault = ("busy" | "connection" | "dns" | "key" | "model" | "not_a_model_server" | "provider" | "quota" | "tcp" | "timeout" | "tls")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ModelSource".
 */
export type ModelSource = ("built_in" | "known" | "listed" | "manual")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Role".
 */
export type Role = ("admin" | "approver" | "observer" | "operator")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Effect".
 */
export type Effect = ("idempotent" | "once" | "read")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Capability".
 */
export type Capability = ("channel" | "files.read" | "files.write" | "memory.read" | "memory.write" | "network" | "processes" | "sessions")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "StopReason".
 */
export type StopReason = ("end" | "max_tokens" | "refused" | "tool_calls")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "InputMode".
 */
export type InputMode = ("interrupt" | "queue" | "steer")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ListName".
 */
export type ListName = ("agents" | "default_model" | "hooks" | "keys" | "models" | "prices" | "providers" | "roots" | "schedules" | "settings" | "skills" | "status" | "tokens" | "tools" | "usage")
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "InputSource".
 */
export type InputSource = ("deferred" | "delegate" | "person")

export interface Protocol {
methods: {
initialize: {
params: {
protocol: Versions
client?: ClientName
subscribe?: Topic[]
}
result: {
protocol: number
server: ServerName
epoch: string
seq: number
role: string
limits: WireLimits
features: string[]
methods: string[]
events?: string[]
nodes?: WireNode[]
proof?: string
}
}
"session/new": {
params: {
agent?: string
workspace?: (string | null)
title?: string
model?: (string | null)
budget?: (Budget | null)
idempotency_key?: (string | null)
}
result: {
session_id: string
title: string
agent: string
kind: SessionKind
workspace: string
model: (string | null)
parent_id: (string | null)
message_count: number
last_message_preview: string
is_active: boolean
head_seq: number
created_at_ms: number
updated_at_ms: number
deleted_at_ms: (number | null)
is_tainted?: boolean
parent_call_id?: string
is_detached?: boolean
has_private?: boolean
forked_from?: string
budget?: (Budget | null)
waiting_for?: string
via?: string
}
}
"session/fork": {
params: {
session_id: string
message_id?: (string | null)
title?: string
idempotency_key?: (string | null)
}
result: {
session_id: string
title: string
agent: string
kind: SessionKind
workspace: string
model: (string | null)
parent_id: (string | null)
message_count: number
last_message_preview: string
is_active: boolean
head_seq: number
created_at_ms: number
updated_at_ms: number
deleted_at_ms: (number | null)
is_tainted?: boolean
parent_call_id?: string
is_detached?: boolean
has_private?: boolean
forked_from?: string
budget?: (Budget | null)
waiting_for?: string
via?: string
}
}
"session/get": {
params: {
session_id: string
}
result: {
session_id: string
title: string
agent: string
kind: SessionKind
workspace: string
model: (string | null)
parent_id: (string | null)
message_count: number
last_message_preview: string
is_active: boolean
head_seq: number
created_at_ms: number
updated_at_ms: number
deleted_at_ms: (number | null)
is_tainted?: boolean
parent_call_id?: string
is_detached?: boolean
has_private?: boolean
forked_from?: string
budget?: (Budget | null)
waiting_for?: string
via?: string
}
}
"session/messages": {
params: {
session_id: string
after?: number
before?: (number | null)
latest_first?: boolean
limit?: number
from_message?: (string | null)
}
result: {
messages: MessageRow[]
has_more?: boolean
}
}
"session/prompt": {
params: {
session_id: string
content: string
attachments?: Attachment[]
budget?: (Budget | null)
mode?: ("interrupt" | "queue" | "steer")
options?: (TurnOptions | null)
is_untrusted?: boolean
trace?: (TraceContext | null)
idempotency_key?: (string | null)
}
result: {
input_id: string
seq: number
turn_id?: (string | null)
}
}
"session/cancel": {
params: {
session_id: string
reason?: string
input_id?: (string | null)
idempotency_key?: (string | null)
}
result: {
was_running: boolean
}
}
"session/retry": {
params: {
session_id: string
message_id?: (string | null)
idempotency_key?: (string | null)
}
result: {
input_id: string
seq: number
turn_id?: (string | null)
}
}
"session/regenerate": {
params: {
session_id: string
message_id?: (string | null)
idempotency_key?: (string | null)
}
result: {
input_id: string
seq: number
turn_id?: (string | null)
}
}
"session/list": {
params: {
limit?: number
before?: (number | null)
agent?: (string | null)
kind?: (SessionKind | null)
via?: (string | null)
workspace?: (string | null)
query?: string
deleted?: ("also" | "no" | "only")
include_children?: boolean
}
result: {
sessions: SessionRow[]
next_before?: (number | null)
}
}
"session/search": {
params: {
query: string
limit?: number
session_id?: (string | null)
agent?: (string | null)
kind?: (SessionKind | null)
via?: (string | null)
workspace?: (string | null)
include_children?: boolean
}
result: {
hits: Hit[]
}
}
"session/delete_messages": {
params: {
session_id: string
message_ids: string[]
idempotency_key?: (string | null)
}
result: {
message_ids: string[]
}
}
"session/rename": {
params: {
session_id: string
title: string
idempotency_key?: (string | null)
}
result: {

}
}
"session/set_agent": {
params: {
session_ids: string[]
agent: string
idempotency_key?: (string | null)
}
result: {

}
}
"session/delete": {
params: {
session_ids: string[]
idempotency_key?: (string | null)
}
result: {
session_ids: string[]
}
}
"session/restore": {
params: {
session_ids: string[]
idempotency_key?: (string | null)
}
result: {
session_ids: string[]
}
}
"session/purge": {
params: {
session_ids: string[]
idempotency_key?: (string | null)
}
result: {
session_ids: string[]
}
}
"session/give_options": {
params: {
session_id: string
options: TurnOptions
has_people?: boolean
left?: string[]
is_for_left?: boolean
idempotency_key?: (string | null)
}
result: {

}
}
"session/attachment": {
params: {
session_id: string
message_id: string
number?: number
offset?: number
}
result: {
name: string
media_type: string
size_bytes: number
data: string
}
}
"session/export": {
params: {
session_id: string
after_seq?: number
offset?: number
}
result: {
session_ids: string[]
head_seq: number
text: string
after_seq: number
offset: number
}
}
"session/import": {
params: {
upload_id: string
part: number
text: string
is_last?: boolean
workspace?: (string | null)
idempotency_key?: (string | null)
}
result: {
received_bytes: number
session_id?: (string | null)
}
}
"session/subscribe": {
params: {
session_id: string
after_seq?: (number | null)
epoch?: (string | null)
}
result: {
seq: number
waiting?: string[]
}
}
"session/unsubscribe": {
params: {
session_id: string
}
result: {

}
}
"topic/subscribe": {
params: {
topic: Topic
after_seq?: (number | null)
epoch?: (string | null)
}
result: {
seq: number
}
}
"topic/unsubscribe": {
params: {
topic: Topic
}
result: {

}
}
"list/wait": {
params: {
known: {
[k: string]: number
}
}
result: {
revisions: {
[k: string]: number
}
}
}
"approval/list": {
params: {
session_id?: (string | null)
state?: (string | null)
before?: (string | null)
limit?: number
}
result: {
approvals: ApprovalRow[]
has_more?: boolean
}
}
"approval/get": {
params: {
approval_id: string
arguments?: (string | null)
}
result: {
approval_id: string
session_id: string
turn_id: string
call_id: string
tool: string
tier: Tier
reason: string
arguments: string
digest: string
expires_at_ms: number
preview?: string
scopes?: string[]
asked_in?: string
origin?: string
is_deferred?: boolean
number?: number
count?: number
parameters?: ({

} | null)
covers?: (Binding | null)
}
}
"approval/resolve": {
params: {
approval_id: string
decision: ("allow" | "deny")
arguments?: (string | null)
remember?: (Remember | null)
reason?: string
idempotency_key?: (string | null)
}
result: {

}
}
"grant/list": {
params: {

}
result: {
grants: GrantRow[]
}
}
"grant/revoke": {
params: {
grant_id: string
idempotency_key?: (string | null)
}
result: {

}
}
"question/list": {
params: {
session_id?: (string | null)
after?: (string | null)
limit?: number
}
result: {
questions: UserQuestion[]
next_after?: (string | null)
}
}
"question/answer": {
params: {
question_id: string
text?: string
option?: (number | null)
idempotency_key?: (string | null)
}
result: {

}
}
"policy/check": {
params: {
session_id: string
tool: string
arguments: string
idempotency_key?: (string | null)
}
result: {
verdict: Verdict
reason: string
rule: string
tool: string
tier: Tier
arguments: string
agent: string
kind: SessionKind
policy: string
}
}
"memory/list": {
params: {
agent?: (string | null)
before?: (string | null)
limit?: number
idempotency_key?: (string | null)
}
result: {
memories: Memory[]
}
}
"memory/search": {
params: {
query: string
agent?: string
limit?: number
idempotency_key?: (string | null)
}
result: {
memories: Memory[]
}
}
"memory/store": {
params: {
session_id: string
text: string
tags?: string[]
idempotency_key?: (string | null)
}
result: {
memory_id: string
agent: string
text: string
tags: string[]
session_id: string
call_id: string
is_untrusted: boolean
stored_at_ms: number
}
}
"memory/delete": {
params: {
memory_id: string
idempotency_key?: (string | null)
}
result: {

}
}
"provider/list": {
params: {
idempotency_key?: (string | null)
}
result: {
providers: ProviderRow[]
problem?: string
}
}
"provider/create": {
params: {
name: string
base_url: string
dialect?: (string | null)
key_env?: (string | null)
model?: (string | null)
models?: string[]
idempotency_key?: (string | null)
}
result: {
provider: (ProviderRow | null)
notes?: string[]
}
}
"provider/update": {
params: {
provider: string
base_url?: (string | null)
dialect?: (string | null)
key_env?: (string | null)
model?: (string | null)
models?: (string[] | null)
is_active?: (boolean | null)
idempotency_key?: (string | null)
}
result: {
provider: (ProviderRow | null)
notes?: string[]
}
}
"provider/delete": {
params: {
provider: string
idempotency_key?: (string | null)
}
result: {
provider: (ProviderRow | null)
notes?: string[]
}
}
"provider/test": {
params: {
provider: string
model?: (string | null)
idempotency_key?: (string | null)
}
result: {
provider: string
base_url: string
dialect: string
model?: (string | null)
works: boolean
fault?: (ConnectionFault | null)
message: string
listed?: (number | null)
duration_ms: number
}
}
"model/list": {
params: {
provider: string
}
result: {
provider: string
models: OfferedModel[]
listed_at_ms?: (number | null)
is_cached?: boolean
problem?: string
}
}
"model/refresh": {
params: {
provider: string
idempotency_key?: (string | null)
}
result: {
provider: string
models: OfferedModel[]
listed_at_ms?: (number | null)
is_cached?: boolean
problem?: string
}
}
"model/default": {
params: {

}
result: {
model: string
reason: string
}
}
"model/chosen": {
params: {

}
result: {
model: (string | null)
source: (string | null)
notes?: string[]
}
}
"model/lend": {
params: {
model?: (string | null)
base_url?: (string | null)
dialect?: (string | null)
environ?: {
[k: string]: string
}
is_recorded?: boolean
name?: (string | null)
idempotency_key?: (string | null)
}
result: {
model: string
reason: string
}
}
"model/set_default": {
params: {
model: (string | null)
idempotency_key?: (string | null)
}
result: {
model: (string | null)
source: (string | null)
notes?: string[]
}
}
"model/add": {
params: {
provider: string
model: string
idempotency_key?: (string | null)
}
result: {
provider: (ProviderRow | null)
notes?: string[]
}
}
"model/remove": {
params: {
provider: string
model: string
idempotency_key?: (string | null)
}
result: {
provider: (ProviderRow | null)
notes?: string[]
}
}
"key/list": {
params: {
idempotency_key?: (string | null)
}
result: {
keys: KeyRow[]
problem?: string
}
}
"key/place": {
params: {
provider: string
origin?: (string | null)
idempotency_key?: (string | null)
}
result: {
provider: string
origin: string
}
}
"provider/set_key": {
params: {
provider: string
key: string
origin?: (string | null)
idempotency_key?: (string | null)
}
result: {
provider: string
origin: string
master_key: (string | null)
is_replaced?: boolean
note?: string
}
}
"key/remove": {
params: {
provider: string
origin?: (string | null)
idempotency_key?: (string | null)
}
result: {
origins: string[]
note?: string
}
}
"token/list": {
params: {
idempotency_key?: (string | null)
}
result: {
tokens: TokenRow[]
}
}
"token/create": {
params: {
name: string
role: Role
agents?: (string[] | null)
sessions?: (string[] | null)
idempotency_key?: (string | null)
}
result: {
name: string
token: string
}
}
"token/rotate": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
name: string
token: string
}
}
"token/revoke": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {

}
}
"console/ticket": {
params: {
role?: (Role | null)
}
result: {
ticket: string
seconds: number
}
}
"agent/list": {
params: {

}
result: {
agents: AgentRow[]
}
}
"agent/get": {
params: {
name: string
}
result: {
name: string
description?: string
prompt?: string
model?: (string | null)
fallbacks?: string[]
policy?: (Preset | null)
auto_hosts?: string[]
defer?: boolean
max_output_tokens?: (number | null)
temperature?: (number | null)
thinking?: (ThinkingEffort | null)
turn_budget?: (Budget | null)
session_budget?: (Budget | null)
skills?: (string[] | null)
updated_at_ms?: (number | null)
tools?: AgentTool[]
has_all_tools?: boolean
built_in?: boolean
source?: ("built_in" | "callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
}
}
"agent/preview": {
params: {
name: string
workspace?: (string | null)
idempotency_key?: (string | null)
}
result: {
text: string
parts: PromptPart[]
}
}
"agent/create": {
params: {
agent: AgentDraft
idempotency_key?: (string | null)
}
result: {
name: string
description?: string
prompt?: string
model?: (string | null)
fallbacks?: string[]
policy?: (Preset | null)
auto_hosts?: string[]
defer?: boolean
max_output_tokens?: (number | null)
temperature?: (number | null)
thinking?: (ThinkingEffort | null)
turn_budget?: (Budget | null)
session_budget?: (Budget | null)
skills?: (string[] | null)
updated_at_ms?: (number | null)
tools?: AgentTool[]
has_all_tools?: boolean
built_in?: boolean
source?: ("built_in" | "callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
}
}
"agent/update": {
params: {
agent: AgentDraft
idempotency_key?: (string | null)
}
result: {
name: string
description?: string
prompt?: string
model?: (string | null)
fallbacks?: string[]
policy?: (Preset | null)
auto_hosts?: string[]
defer?: boolean
max_output_tokens?: (number | null)
temperature?: (number | null)
thinking?: (ThinkingEffort | null)
turn_budget?: (Budget | null)
session_budget?: (Budget | null)
skills?: (string[] | null)
updated_at_ms?: (number | null)
tools?: AgentTool[]
has_all_tools?: boolean
built_in?: boolean
source?: ("built_in" | "callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
}
}
"agent/clone": {
params: {
name: string
new_name: string
idempotency_key?: (string | null)
}
result: {
name: string
description?: string
prompt?: string
model?: (string | null)
fallbacks?: string[]
policy?: (Preset | null)
auto_hosts?: string[]
defer?: boolean
max_output_tokens?: (number | null)
temperature?: (number | null)
thinking?: (ThinkingEffort | null)
turn_budget?: (Budget | null)
session_budget?: (Budget | null)
skills?: (string[] | null)
updated_at_ms?: (number | null)
tools?: AgentTool[]
has_all_tools?: boolean
built_in?: boolean
source?: ("built_in" | "callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
}
}
"agent/delete": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
moved_sessions: number
}
}
"skill/list": {
params: {
workspace: string
idempotency_key?: (string | null)
}
result: {
skills: Skill[]
}
}
"skill/get": {
params: {
workspace: string
path: string
idempotency_key?: (string | null)
}
result: {
skill: Skill
text: string
files: {
[k: string]: number
}
}
}
"skill/allow": {
params: {
workspace: string
path: string
digest: string
idempotency_key?: (string | null)
}
result: {
name: string
state: ("approved" | "broken" | "changed" | "hidden" | "new" | "own")
path: string
description?: string
digest?: string
problem?: string
kind?: ("instructions" | "skill")
}
}
"skill/revoke": {
params: {
workspace: string
path: string
idempotency_key?: (string | null)
}
result: {

}
}
"schedule/list": {
params: {

}
result: {
schedules: ScheduleRow[]
}
}
"schedule/get": {
params: {
name: string
}
result: {
name: string
prompt: string
cron?: (string | null)
every?: (string | null)
at?: (string | null)
zone?: string
agent?: string
workspace?: (string | null)
session?: ("new" | "same")
missed?: ("run_once" | "skip")
overlap?: ("queue" | "skip")
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
paused?: boolean
updated_at_ms?: (number | null)
source?: ("callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
next_at_ms?: number[]
last?: (Firing | null)
skipped_at_ms?: (number | null)
skipped?: string
problem?: string
}
}
"schedule/next": {
params: {
name: string
count?: number
}
result: {
planned_at_ms: number[]
}
}
"schedule/firings": {
params: {
name: string
count?: number
}
result: {
firings: Firing[]
}
}
"schedule/run": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
planned_at_ms: (number | null)
at_ms: number
session_id: string
input_id: string
state: string
message?: string
}
}
"schedule/create": {
params: {
schedule: ScheduleDraft
idempotency_key?: (string | null)
}
result: {
name: string
prompt: string
cron?: (string | null)
every?: (string | null)
at?: (string | null)
zone?: string
agent?: string
workspace?: (string | null)
session?: ("new" | "same")
missed?: ("run_once" | "skip")
overlap?: ("queue" | "skip")
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
paused?: boolean
updated_at_ms?: (number | null)
source?: ("callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
next_at_ms?: number[]
last?: (Firing | null)
skipped_at_ms?: (number | null)
skipped?: string
problem?: string
}
}
"schedule/update": {
params: {
schedule: ScheduleDraft
idempotency_key?: (string | null)
}
result: {
name: string
prompt: string
cron?: (string | null)
every?: (string | null)
at?: (string | null)
zone?: string
agent?: string
workspace?: (string | null)
session?: ("new" | "same")
missed?: ("run_once" | "skip")
overlap?: ("queue" | "skip")
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
paused?: boolean
updated_at_ms?: (number | null)
source?: ("callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
next_at_ms?: number[]
last?: (Firing | null)
skipped_at_ms?: (number | null)
skipped?: string
problem?: string
}
}
"schedule/pause": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
name: string
prompt: string
cron?: (string | null)
every?: (string | null)
at?: (string | null)
zone?: string
agent?: string
workspace?: (string | null)
session?: ("new" | "same")
missed?: ("run_once" | "skip")
overlap?: ("queue" | "skip")
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
paused?: boolean
updated_at_ms?: (number | null)
source?: ("callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
next_at_ms?: number[]
last?: (Firing | null)
skipped_at_ms?: (number | null)
skipped?: string
problem?: string
}
}
"schedule/resume": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
name: string
prompt: string
cron?: (string | null)
every?: (string | null)
at?: (string | null)
zone?: string
agent?: string
workspace?: (string | null)
session?: ("new" | "same")
missed?: ("run_once" | "skip")
overlap?: ("queue" | "skip")
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
paused?: boolean
updated_at_ms?: (number | null)
source?: ("callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
next_at_ms?: number[]
last?: (Firing | null)
skipped_at_ms?: (number | null)
skipped?: string
problem?: string
}
}
"schedule/delete": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {

}
}
"hook/list": {
params: {
idempotency_key?: (string | null)
}
result: {
hooks: HookRow[]
}
}
"hook/get": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
name: string
direction: ("in" | "out")
place: string
has_secret: boolean
paused?: boolean
signature?: string
agent?: string
session?: string
max_per_minute?: number
events?: string[]
waiting?: number
dead?: number
problem?: string
prompt?: string
workspace?: (string | null)
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
source?: ("callboard.toml" | "managed")
created_at_ms?: (number | null)
updated_at_ms?: (number | null)
}
}
"hook/create": {
params: {
hook: HookDraft
idempotency_key?: (string | null)
}
result: {
name: string
direction: ("in" | "out")
place: string
has_secret: boolean
paused?: boolean
signature?: string
agent?: string
session?: string
max_per_minute?: number
events?: string[]
waiting?: number
dead?: number
problem?: string
prompt?: string
workspace?: (string | null)
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
source?: ("callboard.toml" | "managed")
created_at_ms?: (number | null)
updated_at_ms?: (number | null)
}
}
"hook/update": {
params: {
hook: HookDraft
idempotency_key?: (string | null)
}
result: {
name: string
direction: ("in" | "out")
place: string
has_secret: boolean
paused?: boolean
signature?: string
agent?: string
session?: string
max_per_minute?: number
events?: string[]
waiting?: number
dead?: number
problem?: string
prompt?: string
workspace?: (string | null)
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
source?: ("callboard.toml" | "managed")
created_at_ms?: (number | null)
updated_at_ms?: (number | null)
}
}
"hook/delete": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {

}
}
"hook/test": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
problem?: string
}
}
"hook/dead": {
params: {
idempotency_key?: (string | null)
}
result: {
letters: DeadLetter[]
}
}
"hook/resend": {
params: {
names?: string[]
idempotency_key?: (string | null)
}
result: {
sent: number
letters: DeadLetter[]
hurried?: number
}
}
"mcp/list": {
params: {

}
result: {
servers: McpRow[]
}
}
"mcp/get": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
row: McpRow
settings: McpSettings
errors?: string
}
}
"mcp/look": {
params: {
name: string
server?: (McpDraft | null)
idempotency_key?: (string | null)
}
result: {
info: ServerInfo1
tools?: PinnedTool[]
offers?: ServerOffers1
refused?: {
[k: string]: string
}
notes?: string[]
digests?: {
[k: string]: string
}
offers_digest?: string
}
}
"mcp/accept": {
params: {
name: string
tools: {
[k: string]: string
}
offers?: (string | null)
idempotency_key?: (string | null)
}
result: {
name: string
source: ("callboard.toml" | "managed" | "program")
state: ("broken" | "failed" | "not started" | "off" | "running" | "starting" | "unknown")
problem?: string
tier: Tier
tools?: string[]
withheld?: string[]
new?: string[]
refused?: {
[k: string]: string
}
resources?: boolean
prompts?: string[]
withheld_prompts?: string[]
info?: ServerInfo2
place?: string
}
}
"mcp/add": {
params: {
server: McpDraft
tools: {
[k: string]: string
}
offers?: (string | null)
idempotency_key?: (string | null)
}
result: {
name: string
source: ("callboard.toml" | "managed" | "program")
state: ("broken" | "failed" | "not started" | "off" | "running" | "starting" | "unknown")
problem?: string
tier: Tier
tools?: string[]
withheld?: string[]
new?: string[]
refused?: {
[k: string]: string
}
resources?: boolean
prompts?: string[]
withheld_prompts?: string[]
info?: ServerInfo3
place?: string
}
}
"mcp/update": {
params: {
server: McpDraft
idempotency_key?: (string | null)
}
result: {
name: string
source: ("callboard.toml" | "managed" | "program")
state: ("broken" | "failed" | "not started" | "off" | "running" | "starting" | "unknown")
problem?: string
tier: Tier
tools?: string[]
withheld?: string[]
new?: string[]
refused?: {
[k: string]: string
}
resources?: boolean
prompts?: string[]
withheld_prompts?: string[]
info?: ServerInfo4
place?: string
}
}
"mcp/remove": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {

}
}
"mcp/login": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
url?: string
login?: string
}
}
"mcp/finish_login": {
params: {
login: string
idempotency_key?: (string | null)
}
result: {

}
}
"mcp/restart": {
params: {
name: string
idempotency_key?: (string | null)
}
result: {
name: string
source: ("callboard.toml" | "managed" | "program")
state: ("broken" | "failed" | "not started" | "off" | "running" | "starting" | "unknown")
problem?: string
tier: Tier
tools?: string[]
withheld?: string[]
new?: string[]
refused?: {
[k: string]: string
}
resources?: boolean
prompts?: string[]
withheld_prompts?: string[]
info?: ServerInfo5
place?: string
}
}
"mcp/prompts": {
params: {
idempotency_key?: (string | null)
}
result: {
prompts: McpPromptRow[]
}
}
"mcp/prompt": {
params: {
server: string
name: string
arguments?: {
[k: string]: string
}
idempotency_key?: (string | null)
}
result: {
text: string
is_untrusted?: boolean
notes?: string[]
}
}
"mcp/complete": {
params: {
server: string
prompt: string
argument: string
value?: string
arguments?: {
[k: string]: string
}
idempotency_key?: (string | null)
}
result: {
values: string[]
}
}
"mcp/use": {
params: {
session_id: string
servers?: SessionServer[]
wait_seconds?: number
idempotency_key?: (string | null)
}
result: {
servers: SessionServerRow[]
}
}
"runtime/status": {
params: {

}
result: {
uptime_seconds: number
model: string
model_reason: string
connections: number
is_stopping: boolean
version?: string
pid?: number
work?: (RuntimeStatus | null)
actors?: ActorStatus[]
journal_seconds?: (number | null)
loop?: (LoopState | null)
config?: (ConfigState | null)
sandbox?: (SandboxState | null)
cluster?: (ClusterState | null)
}
}
"runtime/shutdown": {
params: {
idempotency_key?: (string | null)
}
result: {

}
}
"tool/list": {
params: {

}
result: {
tools: ToolDefinition[]
not_offered?: {
[k: string]: string
}
}
}
"tool/definitions": {
params: {
format: ("anthropic" | "gemini" | "openai" | "openai_chat" | "openai_responses" | "responses")
agent?: string
}
result: {
definitions: {

}[]
}
}
"tool/history": {
params: {
session_id?: (string | null)
name?: (string | null)
status?: (CallStatus | null)
since_ms?: (number | null)
until_ms?: (number | null)
before?: (number | null)
limit?: number
}
result: {
calls: CallRow[]
next_before?: (number | null)
}
}
"call/cancel": {
params: {
session_id: string
call_id: string
idempotency_key?: (string | null)
}
result: {
was_running: boolean
}
}
"turn/get": {
params: {
session_id: string
turn_id?: (string | null)
after_seq?: number
texts?: boolean
}
result: {
session_id: string
turn_id: string
events: Stored[]
is_over: boolean
has_more: boolean
delegated: DelegatedSession[]
running: RunningCall[]
now_ms: number
}
}
"log/tail": {
params: {
after?: number
level?: ("debug" | "error" | "info" | "warning")
limit?: number
wait?: boolean
idempotency_key?: (string | null)
}
result: {
records: LogRecord[]
head: number
is_cut: boolean
}
}
"store/backup": {
params: {
idempotency_key?: (string | null)
}
result: {
path: string
size_bytes: number
}
}
"config/reload": {
params: {
idempotency_key?: (string | null)
}
result: {
changed: string[]
state: ConfigState
}
}
"settings/get": {
params: {
idempotency_key?: (string | null)
}
result: {
settings: SettingRow[]
}
}
"settings/set": {
params: {
name: string
value?: (boolean | number | string | null)
idempotency_key?: (string | null)
}
result: {
name: string
value: unknown
needs_restart: boolean
can_be_set?: boolean
schema?: ({

} | null)
place?: string
}
}
"price/list": {
params: {

}
result: {
prices: PriceRow[]
}
}
"usage/get": {
params: {
by?: ("agent" | "call" | "day" | "model" | "session" | "turn")
session_id?: (string | null)
since_ms?: number
}
result: {
sums: UsageSum[]
total: UsageSum
}
}
"session/set_budget": {
params: {
session_id: string
budget?: (Budget | null)
idempotency_key?: (string | null)
}
result: {

}
}
"session/undo": {
params: {
session_id: string
call_id?: (string | null)
force?: boolean
dry_run?: boolean
idempotency_key?: (string | null)
}
result: {
undo_id: string
call_ids: string[]
lines: string[]
left?: string[]
programs?: string[]
running?: string[]
files?: UndoneFile[]
}
}
"session/changes": {
params: {
session_id: string
}
result: {
changes: ChangedCall[]
}
}
"root/list": {
params: {
idempotency_key?: (string | null)
}
result: {
roots: string[]
given?: string[]
}
}
"root/add": {
params: {
path: string
idempotency_key?: (string | null)
}
result: {
roots: string[]
given?: string[]
}
}
}
notifications: {
"session/update": {
session_id: string
event: (SessionCreated | HistoryGiven | InputAccepted | InputDelivered | InputCancelled | TurnStarted | MessageCompleted | AttemptFailed | AttemptCharged | SessionBudgetSet | ModelSwitched | ProviderSetAside | HistoryCompacted | CallProposed | CallDeferred | ToolGivenUp | ChildAsks | QuestionAsked | QuestionAnswered | MessageSent | PlanSet | ChangesUndone | MemoryStored | MemoryForgotten | ApprovalAsked | ApprovalAnswered | GrantGiven | GrantRevoked | SessionTainted | FilesMarked | PrivateDataRead | CallStarted | CallFinished | TurnSuspended | TurnResumed | TurnEnded | TurnSetAside | AnswerRejected | AgentSwitched | TitleSet | MessagesDeleted | SessionDeleted | SessionRestored | SessionPurged | StreamBatch | CallProgress | ChildCall | MessageDiscarded)
seq?: (number | null)
at_ms?: (number | null)
}
"session/snapshot": {
session_id: string
seq: number
answer?: (StreamBatch | null)
outputs?: RunningOutput[]
below?: ChildCall[]
}
"session/lost": {
session_id: string
error: RpcError
}
"topic/update": {
topic: Topic
seq: number
update: Stored
}
"topic/current": {
topic: Topic
seq: number
}
"topic/lost": {
topic: Topic
error: RpcError
}
"runtime/stopping": {
seconds?: number
}
"runtime/store_unavailable": {
since_ms: number
reason?: string
}
"runtime/store_available": {
seconds?: number
}
}
error: {
code: number
message: string
data: ErrorData
}
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Versions".
 */
export interface Versions {
min: number
max: number
}
export interface ClientName {
name?: string
version?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ServerName".
 */
export interface ServerName {
name: string
version: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "WireLimits".
 */
export interface WireLimits {
max_frame_bytes: number
max_outbox_bytes: number
ping_seconds: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "WireNode".
 */
export interface WireNode {
node_id: string
url: string
is_this?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Budget".
 */
export interface Budget {
tokens?: (number | null)
cost_usd?: (number | null)
seconds?: (number | null)
tool_calls?: (number | null)
model_calls?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "MessageRow".
 */
export interface MessageRow {
message_id: string
session_id: string
position: number
type: string
content: string
created_at_ms: number
turn_id?: (string | null)
thinking?: (string | null)
call_id?: (string | null)
tool_name?: (string | null)
tool_input?: (string | null)
tool_output?: (string | null)
tool_status?: (CallStatus | null)
tool_duration_ms?: (number | null)
input_tokens?: (number | null)
output_tokens?: (number | null)
model?: (string | null)
provider?: (string | null)
duration_ms?: (number | null)
is_set_aside?: boolean
stop_reason?: (string | null)
cached_tokens?: (number | null)
cache_write_tokens?: (number | null)
is_deleted?: boolean
cost?: (number | null)
files?: MessageFile[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "MessageFile".
 */
export interface MessageFile {
name: string
media_type: string
size_bytes: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Attachment".
 */
export interface Attachment {
media_type: string
data: string
name?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TurnOptions".
 */
export interface TurnOptions {
model?: (string | null)
fallbacks?: (string[] | null)
thinking?: (ThinkingEffort | null)
temperature?: (number | null)
max_output_tokens?: (number | null)
policy?: (Preset | null)
calls?: GivenCall[]
compact?: boolean
tools?: (string[] | null)
timeout_seconds?: (number | null)
answer_schema?: (string | null)
unattended?: (("defer" | "deny") | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "GivenCall".
 */
export interface GivenCall {
name: string
arguments?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TraceContext".
 */
export interface TraceContext {
traceparent: string
tracestate?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionRow".
 */
export interface SessionRow {
session_id: string
title: string
agent: string
kind: SessionKind
workspace: string
model: (string | null)
parent_id: (string | null)
message_count: number
last_message_preview: string
is_active: boolean
head_seq: number
created_at_ms: number
updated_at_ms: number
deleted_at_ms: (number | null)
is_tainted?: boolean
parent_call_id?: string
is_detached?: boolean
has_private?: boolean
forked_from?: string
budget?: (Budget | null)
waiting_for?: string
via?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Hit".
 */
export interface Hit {
session: SessionRow
message_id: string
position: number
type: string
snippet: string
created_at_ms: number
matches: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ApprovalRow".
 */
export interface ApprovalRow {
approval_id: string
session_id: string
turn_id: string
call_id: string
state: ("allowed" | "denied" | "expired" | "revised" | "used" | "void" | "waiting" | "withdrawn")
tool: string
tier: Tier
reason: string
arguments: string
digest: string
preview?: string
policy_version?: string
same_as?: string
asked_at_ms?: number
expires_at_ms?: number
answered_at_ms?: (number | null)
decision?: (("allow" | "deferred" | "deny" | "expired" | "revised" | "void" | "withdrawn") | "")
answered_by?: string
answer_reason?: string
remember?: (string | null)
final_arguments?: (string | null)
final_digest?: (string | null)
is_deferred?: boolean
grant_id?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Binding".
 */
export interface Binding {
arguments: string
paths?: {
[k: string]: string
}
hosts?: {
[k: string]: string
}
free?: string[]
programs?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Remember".
 */
export interface Remember {
scope: string
pattern?: (string | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "GrantRow".
 */
export interface GrantRow {
grant_id: string
session_id: string
verdict: ("allow" | "deny")
scope: string
tool: string
definition: string
tier: Tier
binding: Binding
agent: string
turn_id: string
workspace: string
approval_id: string
given_by: string
reason: string
given_at_ms: number
revoked_at_ms?: (number | null)
is_tainted?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "UserQuestion".
 */
export interface UserQuestion {
question_id: string
session_id: string
turn_id: string
call_id: string
question: string
options?: string[]
expires_at_ms?: number
asked_in?: string
origin?: string
form?: (QuestionForm | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "QuestionForm".
 */
export interface QuestionForm {
fields?: FormField[]
url?: string
asked_by?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "FormField".
 */
export interface FormField {
name: string
kind?: ("choice" | "choices" | "integer" | "number" | "text" | "yes_no")
title?: string
description?: string
required?: boolean
options?: string[]
labels?: string[]
default?: (string | boolean | number | string[] | null)
form?: string
least?: (number | null)
most?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Memory".
 */
export interface Memory {
memory_id: string
agent: string
text: string
tags: string[]
session_id: string
call_id: string
is_untrusted: boolean
stored_at_ms: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ProviderRow".
 */
export interface ProviderRow {
name: string
base_url: string
dialect: string
key: string
key_env: (string | null)
is_active: boolean
source: string
model: (string | null)
models: string[]
note?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "OfferedModel".
 */
export interface OfferedModel {
choice: string
title?: string
context_tokens?: (number | null)
max_output_tokens?: (number | null)
source: ModelSource
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "KeyRow".
 */
export interface KeyRow {
provider: string
origin: string
name: string
source: string
variable?: (string | null)
created_at_ms?: (number | null)
is_used: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TokenRow".
 */
export interface TokenRow {
name: string
role: Role
created_at_ms: number
agents: (string[] | null)
sessions: (string[] | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "AgentRow".
 */
export interface AgentRow {
name: string
description?: string
prompt?: string
model?: (string | null)
fallbacks?: string[]
policy?: (Preset | null)
auto_hosts?: string[]
defer?: boolean
max_output_tokens?: (number | null)
temperature?: (number | null)
thinking?: (ThinkingEffort | null)
turn_budget?: (Budget | null)
session_budget?: (Budget | null)
skills?: (string[] | null)
updated_at_ms?: (number | null)
tools?: AgentTool[]
has_all_tools?: boolean
built_in?: boolean
source?: ("built_in" | "callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "AgentTool".
 */
export interface AgentTool {
name: string
description?: string
tier?: (Tier | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "PromptPart".
 */
export interface PromptPart {
source: ("agent" | "servers" | "workspace")
text: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "AgentDraft".
 */
export interface AgentDraft {
name: string
description?: string
prompt?: string
model?: (string | null)
fallbacks?: string[]
policy?: (Preset | null)
auto_hosts?: string[]
defer?: boolean
max_output_tokens?: (number | null)
temperature?: (number | null)
thinking?: (ThinkingEffort | null)
turn_budget?: (Budget | null)
session_budget?: (Budget | null)
skills?: (string[] | null)
updated_at_ms?: (number | null)
tools?: (string[] | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Skill".
 */
export interface Skill {
name: string
state: ("approved" | "broken" | "changed" | "hidden" | "new" | "own")
path: string
description?: string
digest?: string
problem?: string
kind?: ("instructions" | "skill")
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ScheduleRow".
 */
export interface ScheduleRow {
name: string
prompt: string
cron?: (string | null)
every?: (string | null)
at?: (string | null)
zone?: string
agent?: string
workspace?: (string | null)
session?: ("new" | "same")
missed?: ("run_once" | "skip")
overlap?: ("queue" | "skip")
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
paused?: boolean
updated_at_ms?: (number | null)
source?: ("callboard.toml" | "managed" | "program")
created_at_ms?: (number | null)
next_at_ms?: number[]
last?: (Firing | null)
skipped_at_ms?: (number | null)
skipped?: string
problem?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Firing".
 */
export interface Firing {
planned_at_ms: (number | null)
at_ms: number
session_id: string
input_id: string
state: string
message?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ScheduleDraft".
 */
export interface ScheduleDraft {
name: string
prompt: string
cron?: (string | null)
every?: (string | null)
at?: (string | null)
zone?: string
agent?: string
workspace?: (string | null)
session?: ("new" | "same")
missed?: ("run_once" | "skip")
overlap?: ("queue" | "skip")
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
paused?: boolean
updated_at_ms?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "HookRow".
 */
export interface HookRow {
name: string
direction: ("in" | "out")
place: string
has_secret: boolean
paused?: boolean
signature?: string
agent?: string
session?: string
max_per_minute?: number
events?: string[]
waiting?: number
dead?: number
problem?: string
prompt?: string
workspace?: (string | null)
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
source?: ("callboard.toml" | "managed")
created_at_ms?: (number | null)
updated_at_ms?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "HookDraft".
 */
export interface HookDraft {
name: string
prompt: string
signature?: ("bearer" | "github" | "standard" | "stripe")
agent?: string
workspace?: (string | null)
session?: ("new" | "same")
unattended?: (("defer" | "deny") | null)
budget?: (Budget | null)
max_per_minute?: number
paused?: boolean
updated_at_ms?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "DeadLetter".
 */
export interface DeadLetter {
name: string
webhook: string
type: string
session_id: string
at_ms: number
attempts: number
problem: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "McpRow".
 */
export interface McpRow {
name: string
source: ("callboard.toml" | "managed" | "program")
state: ("broken" | "failed" | "not started" | "off" | "running" | "starting" | "unknown")
problem?: string
tier: Tier
tools?: string[]
withheld?: string[]
new?: string[]
refused?: {
[k: string]: string
}
resources?: boolean
prompts?: string[]
withheld_prompts?: string[]
info?: ServerInfo
place?: string
}
export interface ServerInfo {
name?: string
version?: string
protocol?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "McpSettings".
 */
export interface McpSettings {
name: string
command?: string[]
url?: (string | null)
type?: ("http" | "sse")
headers?: {
[k: string]: string
}
client_id?: (string | null)
client_secret?: (string | null)
env?: {
[k: string]: string
}
network?: string[]
read_only?: string[]
files?: ("none" | "read" | "write")
state?: boolean
tier?: ("elevated" | "read_only" | "system" | "workspace")
tiers?: {
[k: string]: Tier
}
effects?: {
[k: string]: Effect
}
annotations?: ("trusted" | "untrusted")
instructions?: boolean
sampling?: boolean
content?: ("trusted" | "untrusted")
timeout_seconds?: number
start_seconds?: number
max_calls?: number
start?: ("eager" | "lazy")
enabled?: boolean
tools?: PinnedTool[]
offers?: ServerOffers
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "PinnedTool".
 */
export interface PinnedTool {
name: string
original: string
title?: string
description?: string
parameters?: {

}
output?: ({

} | null)
annotations?: {

}
accepted_at_ms?: number
accepted_by?: string
}
export interface ServerOffers {
resources?: boolean
prompts?: ServerPrompt[]
instructions?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ServerPrompt".
 */
export interface ServerPrompt {
name: string
title?: string
description?: string
arguments?: PromptArgument[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "PromptArgument".
 */
export interface PromptArgument {
name: string
description?: string
required?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "McpDraft".
 */
export interface McpDraft {
name: string
command?: string[]
url?: (string | null)
type?: ("http" | "sse")
headers?: {
[k: string]: string
}
client_id?: (string | null)
client_secret?: (string | null)
env?: {
[k: string]: string
}
network?: string[]
read_only?: string[]
files?: ("none" | "read" | "write")
state?: boolean
tier?: ("elevated" | "read_only" | "system" | "workspace")
tiers?: {
[k: string]: Tier
}
effects?: {
[k: string]: Effect
}
annotations?: ("trusted" | "untrusted")
instructions?: boolean
sampling?: boolean
content?: ("trusted" | "untrusted")
timeout_seconds?: number
start_seconds?: number
max_calls?: number
start?: ("eager" | "lazy")
enabled?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ServerInfo".
 */
export interface ServerInfo1 {
name?: string
version?: string
protocol?: string
}
export interface ServerOffers1 {
resources?: boolean
prompts?: ServerPrompt[]
instructions?: string
}
export interface ServerInfo2 {
name?: string
version?: string
protocol?: string
}
export interface ServerInfo3 {
name?: string
version?: string
protocol?: string
}
export interface ServerInfo4 {
name?: string
version?: string
protocol?: string
}
export interface ServerInfo5 {
name?: string
version?: string
protocol?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "McpPromptRow".
 */
export interface McpPromptRow {
server: string
name: string
title?: string
description?: string
arguments?: PromptArgument[]
problem?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionServer".
 */
export interface SessionServer {
name: string
command?: string[]
env?: {
[k: string]: string
}
url?: (string | null)
headers?: {
[k: string]: string
}
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionServerRow".
 */
export interface SessionServerRow {
name: string
state: ("broken" | "failed" | "not started" | "off" | "running" | "starting" | "unknown")
problem?: string
tools?: string[]
refused?: {
[k: string]: string
}
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "RuntimeStatus".
 */
export interface RuntimeStatus {
sessions: string[]
turns?: RunningTurn[]
calls?: RunningCall[]
background?: RunningProgram[]
storage_failed?: string
storage_warning?: string
actors?: ActorStatus[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "RunningTurn".
 */
export interface RunningTurn {
session_id: string
turn_id: string
seconds: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "RunningCall".
 */
export interface RunningCall {
session_id: string
turn_id: string
call_id: string
tool: string
seconds: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "RunningProgram".
 */
export interface RunningProgram {
session_id: string
process_id: string
command: string
seconds: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ActorStatus".
 */
export interface ActorStatus {
name: string
is_running: boolean
waiting: number
capacity: number
restarts: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "LoopState".
 */
export interface LoopState {
lag_seconds: number
blocked: number
longest_seconds: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ConfigState".
 */
export interface ConfigState {
revision: number
since_ms: number
waiting?: string[]
problem?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SandboxState".
 */
export interface SandboxState {
strength?: string
reason?: string
bounds?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ClusterState".
 */
export interface ClusterState {
node: string
is_held: boolean
nodes?: ClusterNodeRow[]
problems?: string[]
waiting?: {
[k: string]: number
}
away_since_ms?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ClusterNodeRow".
 */
export interface ClusterNodeRow {
name: string
term: number
state: string
url: string
version: string
sessions?: (number | null)
lease_ms?: (number | null)
lag_ms?: (number | null)
roots?: string[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ToolDefinition".
 */
export interface ToolDefinition {
name: string
description: string
parameters: {

}
output?: ({

} | boolean | null)
tier?: ("elevated" | "read_only" | "system" | "workspace")
needs?: Capability[]
timeout_seconds?: number
approval?: string
effect?: ("idempotent" | "once" | "read")
source?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "CallRow".
 */
export interface CallRow {
call_id: string
session_id: string
turn_id: string
name: string
status: CallStatus
arguments: string
result: (string | null)
display: string
proposed_at_ms: number
started_at_ms: (number | null)
finished_at_ms: (number | null)
duration_ms: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Stored".
 */
export interface Stored {
session_id: string
seq: number
at_ms: number
event: (SessionCreated | HistoryGiven | InputAccepted | InputDelivered | InputCancelled | TurnStarted | MessageCompleted | AttemptFailed | AttemptCharged | SessionBudgetSet | ModelSwitched | ProviderSetAside | HistoryCompacted | CallProposed | CallDeferred | ToolGivenUp | ChildAsks | QuestionAsked | QuestionAnswered | MessageSent | PlanSet | ChangesUndone | MemoryStored | MemoryForgotten | ApprovalAsked | ApprovalAnswered | GrantGiven | GrantRevoked | SessionTainted | FilesMarked | PrivateDataRead | CallStarted | CallFinished | TurnSuspended | TurnResumed | TurnEnded | TurnSetAside | AnswerRejected | AgentSwitched | TitleSet | MessagesDeleted | SessionDeleted | SessionRestored | SessionPurged)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionCreated".
 */
export interface SessionCreated {
type: "session_created"
agent: string
workspace: string
title?: string
model?: (string | null)
kind?: ("branch" | "main" | "worker")
parent_id?: (string | null)
parent_call_id?: string
tools?: (string[] | null)
budget?: (Budget | null)
is_detached?: boolean
request?: (RequestKey | null)
forked_from?: string
forked_at?: string
via?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "RequestKey".
 */
export interface RequestKey {
sender: string
method: string
key: string
digest: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "HistoryGiven".
 */
export interface HistoryGiven {
type: "history_given"
messages: (Input | Answer | Result)[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Input".
 */
export interface Input {
type: "input"
text: string
attachments?: Attachment[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Answer".
 */
export interface Answer {
type: "answer"
parts: (Text | Thinking | Refusal | Opaque | Call)[]
dialect?: string
model?: string
provider?: string
incomplete?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Text".
 */
export interface Text {
type: "text"
text: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Thinking".
 */
export interface Thinking {
type: "thinking"
text: string
signature?: (string | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Refusal".
 */
export interface Refusal {
type: "refusal"
text: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Opaque".
 */
export interface Opaque {
type: "opaque"
dialect: string
kind: string
data: unknown
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Call".
 */
export interface Call {
type: "call"
call_id: string
name: string
arguments: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Result".
 */
export interface Result {
type: "result"
call_id: string
name: string
content: string
is_error?: boolean
attachments?: Attachment[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "InputAccepted".
 */
export interface InputAccepted {
type: "input_accepted"
input_id: string
text: string
attachments?: Attachment[]
budget?: (Budget | null)
source?: ("deferred" | "delegate" | "person")
call_id?: string
approval_id?: string
child_id?: string
mode?: ("interrupt" | "queue" | "steer")
request?: (RequestKey | null)
options?: (TurnOptions | null)
widens?: string
via?: string
client?: (ClientContext | null)
trace?: (TraceContext | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ClientContext".
 */
export interface ClientContext {
instructions?: string
tools?: GivenTool[]
metadata?: {
[k: string]: string
}
asks?: boolean
must_call?: string
allowed?: (string[] | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "GivenTool".
 */
export interface GivenTool {
name: string
description?: string
parameters?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "InputDelivered".
 */
export interface InputDelivered {
type: "input_delivered"
turn_id: string
input_id: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "InputCancelled".
 */
export interface InputCancelled {
type: "input_cancelled"
input_id: string
reason: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TurnStarted".
 */
export interface TurnStarted {
type: "turn_started"
turn_id: string
input_ids: string[]
provider: string
model: string
policy?: (Preset | null)
gone?: string[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "MessageCompleted".
 */
export interface MessageCompleted {
type: "message_completed"
turn_id: string
message_id: string
parts: (Text | Thinking | Refusal | Opaque | Call)[]
provider: string
model: string
dialect?: string
stop_reason?: string
usage?: (Usage | null)
duration_ms?: number
incomplete?: boolean
estimate?: (Usage | null)
is_copy?: boolean
first_ms?: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Usage".
 */
export interface Usage {
type: "usage"
input_tokens?: (number | null)
output_tokens?: (number | null)
cached_tokens?: (number | null)
reasoning_tokens?: (number | null)
cache_write_tokens?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "AttemptFailed".
 */
export interface AttemptFailed {
type: "attempt_failed"
turn_id: string
provider: string
model: string
attempt: number
error_type: string
message: string
wait_seconds: number
usage?: (Usage | null)
estimate?: (Usage | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "AttemptCharged".
 */
export interface AttemptCharged {
type: "attempt_charged"
turn_id: string
provider: string
model: string
usage?: (Usage | null)
estimate?: (Usage | null)
call_id?: string
answer?: string
duration_ms?: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionBudgetSet".
 */
export interface SessionBudgetSet {
type: "session_budget_set"
budget?: (Budget | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ModelSwitched".
 */
export interface ModelSwitched {
type: "model_switched"
turn_id: string
provider: string
model: string
reason: string
error_type?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ProviderSetAside".
 */
export interface ProviderSetAside {
type: "provider_set_aside"
turn_id: string
provider: string
seconds: number
reason: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "HistoryCompacted".
 */
export interface HistoryCompacted {
type: "history_compacted"
turn_id: string
rounds: number
summary: string
provider: string
model: string
usage?: (Usage | null)
estimate?: (Usage | null)
why_left_out?: string
is_copy?: boolean
is_wanted?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "CallProposed".
 */
export interface CallProposed {
type: "call_proposed"
turn_id: string
message_id: string
call_id: string
index: number
name: string
arguments: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "CallDeferred".
 */
export interface CallDeferred {
type: "call_deferred"
turn_id: string
call_id: string
name: string
approval_id: string
result: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ToolGivenUp".
 */
export interface ToolGivenUp {
type: "tool_given_up"
turn_id: string
name: string
attempts: number
message: string
child_id?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ChildAsks".
 */
export interface ChildAsks {
type: "child_asks"
question_id: string
child_id: string
call_id: string
name: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "QuestionAsked".
 */
export interface QuestionAsked {
type: "question_asked"
question_id: string
turn_id: string
call_id: string
question: string
options?: string[]
expires_at_ms?: number
form?: (QuestionForm | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "QuestionAnswered".
 */
export interface QuestionAnswered {
type: "question_answered"
question_id: string
call_id: string
answer: string
answered_by?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "MessageSent".
 */
export interface MessageSent {
type: "message_sent"
call_id: string
text: string
channel: string
child_id?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "PlanSet".
 */
export interface PlanSet {
type: "plan_set"
turn_id: string
call_id: string
items: PlanItem[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "PlanItem".
 */
export interface PlanItem {
text: string
status?: ("done" | "in_progress" | "pending")
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ChangesUndone".
 */
export interface ChangesUndone {
type: "changes_undone"
undo_id: string
call_ids: string[]
paths: number
left?: number
undone_by?: string
is_forced?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "MemoryStored".
 */
export interface MemoryStored {
type: "memory_stored"
memory_id: string
agent: string
text: string
tags?: string[]
call_id?: string
is_untrusted?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "MemoryForgotten".
 */
export interface MemoryForgotten {
type: "memory_forgotten"
memory_id: string
forgotten_by: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ApprovalAsked".
 */
export interface ApprovalAsked {
type: "approval_asked"
approval_id: string
turn_id: string
call_id: string
name: string
tier: Tier
reason: string
arguments: string
digest: string
preview?: string
expires_at_ms?: number
policy_version?: string
same_as?: string
is_deferred?: boolean
asked_in?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ApprovalAnswered".
 */
export interface ApprovalAnswered {
type: "approval_answered"
approval_id: string
call_id: string
decision: ("allow" | "deferred" | "deny" | "expired" | "revised" | "void" | "withdrawn")
answered_by: string
reason?: string
arguments?: (string | null)
remember?: (string | null)
digest?: (string | null)
grant_id?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "GrantGiven".
 */
export interface GrantGiven {
type: "grant_given"
grant_id: string
verdict: ("allow" | "deny")
scope: string
tool: string
definition: string
tier: Tier
binding: Binding
agent: string
turn_id: string
workspace: string
approval_id: string
given_by: string
reason?: string
is_tainted?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "GrantRevoked".
 */
export interface GrantRevoked {
type: "grant_revoked"
grant_id: string
revoked_by: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionTainted".
 */
export interface SessionTainted {
type: "session_tainted"
source: string
call_id?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "FilesMarked".
 */
export interface FilesMarked {
type: "files_marked"
call_id: string
marked?: string[]
cleared?: string[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "PrivateDataRead".
 */
export interface PrivateDataRead {
type: "private_data_read"
source: string
call_id?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "CallStarted".
 */
export interface CallStarted {
type: "call_started"
turn_id: string
call_id: string
approval_id?: string
digest?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "CallFinished".
 */
export interface CallFinished {
type: "call_finished"
turn_id: string
call_id: string
name: string
status: CallStatus
result: string
arguments?: (string | null)
display?: string
artifacts?: Artifact[]
full_output?: (string | null)
duration_ms?: number
hosts?: string[]
attempts_left?: (number | null)
attachments?: Attachment[]
server?: (CalledServer | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Artifact".
 */
export interface Artifact {
kind: string
id: string
size_bytes: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "CalledServer".
 */
export interface CalledServer {
name: string
protocol?: string
transport?: ("pipe" | "tcp")
code?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TurnSuspended".
 */
export interface TurnSuspended {
type: "turn_suspended"
turn_id: string
call_ids: string[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TurnResumed".
 */
export interface TurnResumed {
type: "turn_resumed"
turn_id: string
approval_ids?: string[]
gone?: string[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TurnEnded".
 */
export interface TurnEnded {
type: "turn_ended"
turn_id: string
outcome: ("answered" | "budget" | "cancelled" | "failed" | "loop_guard" | "max_tokens" | "refused" | "suspended")
error_type?: string
message?: string
unreaped?: string[]
duration_ms?: number
answer?: string
message_id?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TurnSetAside".
 */
export interface TurnSetAside {
type: "turn_set_aside"
turn_id: string
input_ids: string[]
why: ("regenerate" | "retry")
request?: (RequestKey | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "AnswerRejected".
 */
export interface AnswerRejected {
type: "answer_rejected"
turn_id: string
message_id: string
problem: string
call_id?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "AgentSwitched".
 */
export interface AgentSwitched {
type: "agent_switched"
agent: string
reason?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TitleSet".
 */
export interface TitleSet {
type: "title_set"
title: string
is_by_model?: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "MessagesDeleted".
 */
export interface MessagesDeleted {
type: "messages_deleted"
message_ids: string[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionDeleted".
 */
export interface SessionDeleted {
type: "session_deleted"
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionRestored".
 */
export interface SessionRestored {
type: "session_restored"
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SessionPurged".
 */
export interface SessionPurged {
type: "session_purged"
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "DelegatedSession".
 */
export interface DelegatedSession {
session_id: string
call_id: string
agent: string
title: string
is_active: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "LogRecord".
 */
export interface LogRecord {
number: number
at_ms: number
level: ("debug" | "error" | "info" | "warning")
logger: string
message: string
traceback?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "SettingRow".
 */
export interface SettingRow {
name: string
value: unknown
needs_restart: boolean
can_be_set?: boolean
schema?: ({

} | null)
place?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "PriceRow".
 */
export interface PriceRow {
model: string
price: Price
is_own: boolean
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Price".
 */
export interface Price {
input: number
output: number
cached_input?: (number | null)
cache_write?: (number | null)
above?: (LongPrice | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "LongPrice".
 */
export interface LongPrice {
tokens: number
input: number
output: number
cached_input?: (number | null)
cache_write?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "UsageSum".
 */
export interface UsageSum {
name: string
session_id?: (string | null)
turn_id?: (string | null)
agent?: (string | null)
model?: (string | null)
calls?: number
input_tokens?: (number | null)
output_tokens?: (number | null)
cached_tokens?: (number | null)
cache_write_tokens?: (number | null)
reasoning_tokens?: (number | null)
cost?: (number | null)
unpriced_calls?: number
uncounted_calls?: number
estimated_tokens?: (number | null)
began_at_ms?: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "UndoneFile".
 */
export interface UndoneFile {
path: string
added: number
removed: number
diff?: string[]
more?: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ChangedCall".
 */
export interface ChangedCall {
call_id: string
at_ms: number
paths: string[]
path_count: number
state: ("broken_off" | "changed" | "undone")
is_undoing?: boolean
session_id?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "StreamBatch".
 */
export interface StreamBatch {
type: "stream_batch"
stream_id: string
offset: number
events: (TextDelta | ThinkingDelta | ThinkingEnd | RefusalDelta | OpaquePart | ToolCallStart | ToolCallDelta | ToolCallEnd | Usage | StreamError | Done)[]
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "TextDelta".
 */
export interface TextDelta {
type: "text_delta"
text: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ThinkingDelta".
 */
export interface ThinkingDelta {
type: "thinking_delta"
text: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ThinkingEnd".
 */
export interface ThinkingEnd {
type: "thinking_end"
signature?: (string | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "RefusalDelta".
 */
export interface RefusalDelta {
type: "refusal_delta"
text: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "OpaquePart".
 */
export interface OpaquePart {
type: "opaque_part"
dialect: string
kind: string
data: unknown
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ToolCallStart".
 */
export interface ToolCallStart {
type: "tool_call_start"
index: number
call_id: string
name: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ToolCallDelta".
 */
export interface ToolCallDelta {
type: "tool_call_delta"
index: number
arguments: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ToolCallEnd".
 */
export interface ToolCallEnd {
type: "tool_call_end"
index: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "StreamError".
 */
export interface StreamError {
type: "error"
error_type: string
message: string
status?: (number | null)
retryable?: boolean
retry_after_seconds?: (number | null)
advice?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "Done".
 */
export interface Done {
type: "done"
stop_reason: StopReason
detail?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "CallProgress".
 */
export interface CallProgress {
type: "call_progress"
call_id: string
text: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ChildCall".
 */
export interface ChildCall {
type: "child_call"
call_id: string
session_id: string
child_call_id: string
name: string
state: ("asks" | "finished" | "proposed" | "started")
depth?: number
task?: string
subject?: string
is_program?: boolean
status?: (CallStatus | null)
duration_ms?: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "MessageDiscarded".
 */
export interface MessageDiscarded {
type: "message_discarded"
stream_id: string
reason: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "RunningOutput".
 */
export interface RunningOutput {
call_id: string
text: string
left_out?: number
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "RpcError".
 */
export interface RpcError {
code: number
message: string
data: ErrorData
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ErrorData".
 */
export interface ErrorData {
type: string
retryable?: boolean
field?: (string | null)
kind?: (string | null)
retry_after_ms?: (number | null)
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ClientName".
 */
export interface ClientName1 {
name?: string
version?: string
}
/**
 * This interface was referenced by `Protocol`'s JSON-Schema
 * via the `definition` "ServerOffers".
 */
export interface ServerOffers2 {
resources?: boolean
prompts?: ServerPrompt[]
instructions?: string
}

export const PROTOCOL = 1;
// Of the schema: fac123cbce365d54ab3dc57eb282b3c9caa5bc0d72c241dd73a64f7f1ac1755e
