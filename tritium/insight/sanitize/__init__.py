"""`tritium.sanitize`: CPU kernels that check every access of memory."""
