"""PTX to machine code: ptxas, or the driver's linker."""
