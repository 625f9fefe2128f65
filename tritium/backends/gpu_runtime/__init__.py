"""What the runtimes of GPU vendors share: their driver libraries have the same functions under other names."""
