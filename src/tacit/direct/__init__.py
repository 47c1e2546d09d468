"""Private records to a model without teachers: noisy steps of training (DP-SGD, DP-MAC).

Modules here turn private units into bounded sums and learn from noisy ones; samples and noise come
from the grant of a `NoisySteps` mechanism, never from here.
"""
