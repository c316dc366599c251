"""A server for language models: ``python -m thalweg.mcp`` speaks the Model Context Protocol over its standard streams.

A model may plan copies, make those that it has planned, compare, verify and list, below the places that the server was
started with. Nothing is deleted, and nothing is replaced unless the server was started so. Each call is in the audit file.
It needs the package ``mcp``: ``pip install 'thalweg[mcp]'``. docs/guide/mcp.md says how to configure it, and what it
defends against; the modules, in the order in which a call meets them:

- ``__main__``: the command line
- ``audit``: who asked what, and what was answered
- ``tools``: what a model may ask for, in words and types
- ``places``: which places are its to name
- ``jobs``: plans, and the copies that are made of them
- ``answers``: what it is told, inert and bounded
"""
