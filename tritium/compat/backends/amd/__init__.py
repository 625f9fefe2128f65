"""Names of the AMD backend, where users of Triton look for them; the backend itself is `amdgcn`."""
