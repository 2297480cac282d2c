"""docs/results.md, the README's tables and its picture, written from the rows under results/."""
