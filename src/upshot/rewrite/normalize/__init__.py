"""Programs in normal form.

Checked programs in; programs with flat terms, one aggregate a rule and safe negations out. Read `normal_form`, which
calls the others in order.
"""
