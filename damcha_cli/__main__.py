"""`python -m damcha_cli`, the same as `damcha`."""

from damcha_cli.app import main

if __name__ == "__main__":
    main()
