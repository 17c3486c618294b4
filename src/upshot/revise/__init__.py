"""View updating: the base changes that make derived rows true or false. [Behrend & Manthey 2008]

Input: a request, preferences and bounds, a database in which changes can be tried. Output: minimal realizations, the
cheapest first. In the order in which a request passes through them:

    request                 rows to insert and delete, preferences, the database as the search uses it
    demand                  instances of rules that derive a requested row, those that lack the fewest rows first
    ground_program          the rows, instances and groups known so far; it grows while the solver works
    solver, groups          the ground program in clingo: changes are choices, views founded, groups weights
    candidates              trials of the solver's choices on the engine; they show which instances are missing
    minimal_realizations    the search: each realization is the cheapest candidate that a trial confirms
    description             placeholders for fresh values, conditions as text, formulas for rows that follow

They use:

    rules, rule_forms       the rules in forms that make small ground programs; aggregates as folds
    built_ins               terms, comparisons and tests of a rule; equations are solved where they can be inverted
    families                columns that share values; the domains of variables: stored and fresh values
    placeholders            symbols for undecided values in the search; placeholders and formulas in realizations
    conditions              comparisons and tests of fresh values: a border and its signs; substitution
    ordered_values          values as numbers, linear expressions of them
    witnesses               values that meet conditions, bounds that refute them
    termination             views whose rows can need any number of fresh values, computed from the rules
    side_effects            views whose side effects add up; views whose rows depend on the fresh values that were tried

The solver is built again when the ground program has grown, since clingo checks no loops between rules that were added
at different times (docs/decisions/0008-solver-rebuilt.md). The program grows in portions that double.

Realizations are minimal: a proper part would cost less, or the same with fewer changes, so it would have been found and
excluded before. Conditions are sufficient, not exact: all values that satisfy them are valid.
"""
