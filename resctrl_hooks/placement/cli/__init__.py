"""The commands `topology` and `config balloons`."""
