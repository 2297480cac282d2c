"""The paper's claims as code that runs: finite MDPs, tabular learners, the episodic backward operator, its bounds."""
