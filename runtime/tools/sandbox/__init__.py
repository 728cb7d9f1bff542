"""Runs programs that nobody trusts: shut in by the kernel, within limits, ended as a whole."""

from runtime.tools.sandbox.box import Availability, Program, Sandbox
from runtime.tools.sandbox.launcher import Ended
from runtime.tools.sandbox.profile import Limits
from runtime.tools.sandbox.users import obstacle, opened_workspace

__all__ = ["Availability", "Ended", "Limits", "Program", "Sandbox", "obstacle", "opened_workspace"]
