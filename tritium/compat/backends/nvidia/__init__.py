"""Names of the NVIDIA backend, where users of Triton look for them; the backend itself is `nvptx`."""
