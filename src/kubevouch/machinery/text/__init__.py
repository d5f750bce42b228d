"""What stands inside of single values: names, times, quantities, selectors, and Go's way of writing them."""
