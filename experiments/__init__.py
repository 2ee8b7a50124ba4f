"""The paper's experiments again, and a few that it leaves out."""
