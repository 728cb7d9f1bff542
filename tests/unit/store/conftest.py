"""What holds for every test of the store."""

from tests.support.open_connections import connections_are_closed

__all__ = ["connections_are_closed"]
