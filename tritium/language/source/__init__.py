"""Python functions as the compiler sees them: text, names, dependencies, dialect."""
