"""The machines tritium compiles for, one folder each."""
