"""Tests of the facts for node-feature-discovery."""
