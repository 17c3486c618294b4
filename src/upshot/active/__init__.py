"""Active rules: what a transaction sets off, before it is committed and after."""
