"""Schemas: between a function's types, a JSON Schema, and the model's text.

A tool of our own is a typed function. `parameters` reads its signature and docstring into a msgspec
Struct and a JSON Schema; `function` adds the options of `@tool` and makes the definition that models
see. When a model calls the tool, `validation` takes its text to that Struct, and what the function
returned to a result.

A foreign tool (an MCP server's, a plugin's) brings a JSON Schema instead of types, and its author is
not trusted. `foreign_schema` bounds what the schema may hold and how much work it may cause;
`foreign_validator` checks values with jsonschema-rs. Both kinds share one way from text to a tree,
one rule for dropping unknown keys and empty nulls, and one wording of errors.

Begin with `validation`: its head lists the steps from text to arguments.
Comes in: functions, JSON Schemas, the text of calls, returned values.
Goes out: `FunctionParts`, argument Structs with their canonical JSON, `ToolResult`; or
`WrongArguments` and `ToolFailure`, which name the field, and `ValidationError` for a bad definition.
Owns: nothing; all is computed from what comes in.
Imports: `tools.context`, `tools.processes`, and runtime's definitions and errors.
"""
