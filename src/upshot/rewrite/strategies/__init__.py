"""The rules of each maintenance strategy, and their printed form.

A normal program in; the rules that compute its changes out. One module a strategy: `maintenance`, `counting`, `bf`,
`rod`, `epf`, `differencing`, `propagation`, `production`.
"""
