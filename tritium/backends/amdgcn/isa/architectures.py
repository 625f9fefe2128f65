"""The architectures that tritium compiles for; what they have stands in `occupancy.MACHINES`."""

_FAMILIES = {
    "gcn5": "gfx900 gfx906",
    "cdna1": "gfx908",
    "cdna2": "gfx90a",
    "cdna3": "gfx942",
    "cdna4": "gfx950",
    "rdna1": "gfx1010 gfx1011 gfx1012",
    "rdna2": "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036",
    "rdna3": "gfx1100 gfx1101 gfx1102 gfx1103",
    "rdna3.5": "gfx1150 gfx1151 gfx1152 gfx1153",
    "rdna4": "gfx1200 gfx1201",
}
ARCHITECTURES = {name: family for family, names in _FAMILIES.items() for name in names.split()}
# The number of the instruction set: 9 is GCN's and CDNA's.
GENERATIONS = {"rdna1": 10, "rdna2": 10, "rdna3": 11, "rdna3.5": 11, "rdna4": 12}
