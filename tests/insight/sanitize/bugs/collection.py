"""All mistakes, as they are registered."""

BUGS = []


def bug(kind, name=None):
    """Register a function that launches a kernel with a mistake of this kind."""
    def register(run):
        BUGS.append((name or run.__name__, kind, run))
        return run
    return register
