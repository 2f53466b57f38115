"""The experiment of ``diagnose --experiment``: limit a culprit in random windows, and measure the victim in each.

`schedule` plans the windows and computes the effect, `proof` runs them. `class_trial` switches a class's limit,
`value_trial` a value of cgroups or a cache mask.
"""
