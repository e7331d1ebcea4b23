"""The byhand surface: nodes that a person drains by a command.

The wish is a row of configuration, not an API object.
"""
