"""The pipeline: heavy work on the log that runs on Spark instead of in the broker.

The rule: one module a job, each a function that takes a Spark session; ``arneb audit``, ``report``,
``compact`` and ``replay`` call the same functions. Decisions are pure functions below the jobs, so
that tests and single machines use them without Spark.
"""
