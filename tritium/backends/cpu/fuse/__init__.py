"""Which loops a program becomes: fusion, buffering, dependences, bounds."""
