"""`resctrl-hook explain`: one call of the hook, said before it is made and without making it."""
