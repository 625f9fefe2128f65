"""Native CPUs: strip loops over tiles, on all cores."""
