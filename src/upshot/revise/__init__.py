"""View updating: which base changes make derived rows true or false. [Behrend & Manthey 2008]

Comes in: a request, preferences and bounds, a database in which changes can be tried (`request`). Goes out: minimal
realizations, the cheapest first (`minimal_realizations`).

    request                 rows to insert and delete, preferences, the database as the search uses it
    rules, rule_forms       the rules in forms that make small ground programs; aggregates as folds
    termination             which views can need any number of fresh values, told before the search
    families                columns that share values; the domains of variables, stored values and fresh ones
    instances               demand: instances of rules for a wanted row, those that lack the fewest rows first
    ground_program          the rows, instances and groups known so far; it grows while the solver works
    solver, groups          the ground program in clingo: changes are choices, views founded, groups weights
    trial                   a candidate on the engine, and the instances that it shows to be missing
    side_effects            the views whose side effects add up, so that the least is known before all are found
    conditions              comparisons and tests of fresh values: a border and its sides; other values in their place
    witnesses               values that meet conditions, bounds that refute them
    ordered_values          values as numbers, linear expressions of them
    built_ins               terms, comparisons and tests of a rule; equations are solved where they can be inverted
    placeholders            symbols for undecided values while searching, placeholders in realizations
    description, effects    names for fresh values, conditions in words, formulas for rows that follow

The solver goes on with what is excluded, and is built again when the ground program has grown: clingo checks no loops
between rules that it was given at different times (docs/decisions/0008). Growth comes in portions that double.

A realization has no proper part that is one: its part would cost less, or the same and be smaller, and would have been
found, and excluded, before. Conditions are sufficient, not exact: every value that meets them makes a realization.
"""
