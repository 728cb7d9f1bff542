"""The configuration: one TOML file, read once, checked as a whole, never changed afterwards."""

from gateway.config.bindings import Binding, binding_for
from gateway.config.checks import obstacles
from gateway.config.load import load
from gateway.config.model import Config, principal
from gateway.config.problems import ConfigurationInvalid, Problem

__all__ = ["Binding", "Config", "ConfigurationInvalid", "Problem", "binding_for", "load", "obstacles", "principal"]
