"""The features, one module or package each."""
