"""What PTX offers: instructions of each architecture, and the only place that spells them."""
