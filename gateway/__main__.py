"""`python -m gateway` is `pilothouse`."""

from gateway.cli import main

main()
