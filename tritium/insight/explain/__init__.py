"""`tritium.explain`: the facts of one launch, as findings, as text and as a page."""
