"""An empty click program: what any command line on click costs before it does anything."""

import click


@click.group()
def main() -> None:
    """Nothing."""


if __name__ == "__main__":
    main()
