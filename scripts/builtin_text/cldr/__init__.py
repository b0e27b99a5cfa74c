"""The built-in English-German phrases, rendered by Babel from CLDR, the Unicode locale data."""
