"""The gateway's own tables, as named statements and queries. Everything is written by the store's one writer."""
