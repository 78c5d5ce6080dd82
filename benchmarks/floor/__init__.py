"""The least programs: each does the work of one measurement and nothing else, without a module of ours."""
