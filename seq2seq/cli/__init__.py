"""Entry points: parse, call one library function, print."""
