"""The presentation of each feature: in `show`, in the columns of `list -o wide`, and in `explain`."""
