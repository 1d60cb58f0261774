"""Daemons for tests, in the test's own process or another, and whoever comes through their door.

Clients are honest, many at once (`crowd`), or bytes by hand (`raw_door`). `soak_daemon`,
`soak_vitals` and `foreign_witness` are for `tests/gateway/soak.py`.
"""
