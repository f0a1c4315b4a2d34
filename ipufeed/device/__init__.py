"""The simulated IPU for programs: configuration, scopes, loops, strategy."""
