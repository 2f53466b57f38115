"""The section `placement`, and files of balloons and topology-aware policies."""
