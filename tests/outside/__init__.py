"""What a user adds from outside the package, without a change to it."""
