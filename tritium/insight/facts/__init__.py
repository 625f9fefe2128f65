"""What a launch touches and what it costs: frozen data classes, and the functions that find them."""
