"""`resctrl-hook explain`: a dry run of one hook call."""
