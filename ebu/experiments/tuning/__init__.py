"""Settings found by search: a study of Optuna whose trials are ordinary run folders, run by the engines of a sweep."""
