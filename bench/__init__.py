"""Side-by-side measurements in one run, as ratios: ``python -m bench [name …] [--save]``."""
