"""Schedules: what is due, once, whatever happens to the process.

`calendar` says when; `decisions` says what becomes of a due time; `gateway.ledger.schedules` keeps both as rows, which
are the truth; `runner` carries them out; `commands`, `tool` and the command line make and change them.
"""
