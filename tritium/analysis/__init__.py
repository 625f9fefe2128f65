"""What is known of the values of a module: index arithmetic, read in one place for every analysis.

`arithmetic` says what each op means; an analysis is a domain that adds, multiplies and rearranges what it knows.
"""
