"""What model servers answer and accept: recorded answers, pages, and the rules for requests.

`request_rules` and `sdk_types` check whatever a test sends to a model (`tests/conftest.py`);
`conversations` makes requests of any shape; `decoding` reads answers that arrive cut.
"""
