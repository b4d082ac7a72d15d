"""Parts and weights that read values from elsewhere in the model. Slots `part` and `weight`.

The folder is the list: a file that declares one is found.
"""
