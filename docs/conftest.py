"""What pytest leaves alone here: Sphinx reads its settings itself."""

collect_ignore = ["conf.py"]
