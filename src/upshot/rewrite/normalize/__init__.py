"""Programs in normal form.

In: a checked program. Out: an equivalent one with flat terms, one aggregate per rule and safe negations. Read
`normal_form`, which calls the passes in order; `operators` and `unfold` are used by single strategies.
"""
