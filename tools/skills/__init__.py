"""Skills: folders of instructions that models read when a task is of their kind.

A skill is a folder with a SKILL.md. Its front matter gives a name and a one-line description, which
stand in the system prompt; a model that wants more calls the tool `skill`. The user's own skills lie
in the data folder. Those of a workspace count only once a person approved exactly their content, by
the hash of all names and bytes: instructions are what an attacker would write.

An AGENTS.md is approved in the same way. It is no skill: models have its whole text in the system prompt.

Begin with `shelf`: it finds skills, decides the state of each, and reads them for a session. `instructions` finds each AGENTS.md.
`book` is what programs and clients manage.
`front_matter` parses the head of SKILL.md, and `tool` is the tool `skill`.
Comes in: the data folder, a workspace, the approvals of `config.skill_approvals`.
Goes out: `Skill` (for people), lines of the system prompt, and contents (for models).
Owns: nothing; folders are read each time, since people change them meanwhile.
Imports: config, `tools.tool`, `tools.workspace`, `tools.processes`, runtime.
"""
