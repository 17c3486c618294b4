"""View updating: which base changes make derived rows true or false. [Behrend & Manthey 2008]

Comes in: a request, preferences and bounds, a database in which changes can be tried. Goes out: minimal realizations,
the cheapest first. In the order in which a request goes through them:

    request                 rows to insert and delete, preferences, the database as the search uses it
    demand                  the instances of rules that derive a wanted row, those that lack the fewest rows first
    ground_program          the rows, instances and groups known so far; it grows while the solver works
    solver, groups          the ground program in clingo: changes are choices, views founded, groups weights
    candidates              what the solver chose, on the engine, and the instances that this shows to be missing
    minimal_realizations    the search: candidates that are proven, each the cheapest of those that are left
    description             placeholders for fresh values, conditions as text, formulas for rows that follow

What they are made of:

    rules, rule_forms       the rules in forms that make small ground programs; aggregates as folds
    built_ins               terms, comparisons and tests of a rule; equations are solved where they can be inverted
    families                columns that share values; the domains of variables, stored values and fresh ones
    placeholders            symbols for undecided values while searching, placeholders in realizations
    conditions              comparisons and tests of fresh values: a border and its sides; other values in their place
    ordered_values          values as numbers, linear expressions of them
    witnesses               values that meet conditions, bounds that refute them
    termination             which views can need any number of fresh values, told before the search
    side_effects            views whose side effects add up; views whose rows depend on the fresh values that were tried

The solver goes on with what is excluded, and is built again when the ground program has grown: clingo checks no loops
between rules that it was given at different times (docs/decisions/0008). Growth comes in portions that double.

A realization has no proper part that is one: its part would cost less, or the same and be smaller, and would have been
found, and excluded, before. Conditions are sufficient, not exact: every value that meets them makes a realization.
"""
