"""`python -m touchstone` is the command `touchstone`."""

from touchstone.cli import main

if __name__ == "__main__":
    main()
