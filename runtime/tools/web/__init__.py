"""The one way out to the web for anything that a model or a stranger may have chosen the address of."""
