"""What AMD GPUs offer: instructions of each architecture, and the only place that spells them."""
