"""Putting the node half on a host: what is to be written as data, then written, or removed, in an order that is safe.

A runtime may start, and containers may come and go, at any moment in between; and whoever installs may be killed.
"""
