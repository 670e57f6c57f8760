"""The node over HTTP: its overview, resources, churn and health.

The rule: a figure that is not measured is left out, or is 0 where tools demand a number.
"""
