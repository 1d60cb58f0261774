"""Schedules: what is asked by itself, and when.

`schedule` is a schedule as it is configured, and what can't be one. `times` says when one is planned to fire: a
pure function of the schedule and the wall clock, the same in every process, so that a planned time names its
firing. cronsim reads cron expressions; it is imported for a schedule that has one.

Begin with `schedule`.
Comes in: fields from TOML, a client or a program; points of time.
Goes out: planned times, always in UTC; complaints that name the field.
Owns: nothing.
Imports: runtime alone.
"""
