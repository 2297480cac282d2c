"""Sets of small tasks on which all methods are compared: trials, rows, aggregates, tables and pictures of such an item.

Every method has the same network, steps, updates, exploration and evaluations; only sampler, target rule and number of
learners differ. A run's score is its last evaluation; the area under its curve says how early it got there. Scores of
different tasks are averaged after a normalisation: 0 is random play, 1 the best a method reached there on average
(``Task.ceiling`` where the task has a scale of its own). That best is of the finished runs, so it may grow while trials are
still going.
"""
